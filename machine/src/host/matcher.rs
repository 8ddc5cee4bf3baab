//! Finds a text in a stream of bytes, a byte at a time (Knuth, Morris, Pratt).

/// Looks for one text. After a match it starts anew behind it.
#[derive(Clone, Debug)]
pub(crate) struct Matcher {
    text: Vec<u8>,
    /// For each length matched so far, the length of the longest proper prefix that is also its end.
    fallback: Vec<usize>,
    matched: usize,
}

impl Matcher {
    /// Looks for `text`; an empty text is never found.
    pub(crate) fn new(text: &[u8]) -> Self {
        let mut fallback = vec![0; text.len()];
        let mut length = 0;
        for end in 1..text.len() {
            while length > 0 && text[length] != text[end] {
                length = fallback[length - 1];
            }
            if text[length] == text[end] {
                length += 1;
            }
            fallback[end] = length;
        }
        Self {
            text: text.to_vec(),
            fallback,
            matched: 0,
        }
    }

    /// Takes the next byte of the stream; whether the text ends with it.
    pub(crate) fn feed(&mut self, byte: u8) -> bool {
        while self.matched > 0 && self.text.get(self.matched) != Some(&byte) {
            self.matched = self.fallback[self.matched - 1];
        }
        if self.text.get(self.matched) == Some(&byte) {
            self.matched += 1;
        }
        let found = self.matched == self.text.len() && self.matched > 0;
        if found {
            self.matched = 0;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ends(text: &[u8], stream: &[u8]) -> Vec<usize> {
        let mut matcher = Matcher::new(text);
        (0..stream.len()).filter(|&i| matcher.feed(stream[i])).collect()
    }

    #[test]
    fn repeats_inside_the_text_are_not_lost() {
        assert_eq!(ends(b"aab", b"aaaab"), [4]);
        assert_eq!(ends(b"abab", b"abaababab"), [6]);
        assert_eq!(ends(b"", b"xyz"), [0usize; 0]);
    }

    proptest! {
        #[test]
        fn as_a_plain_search_would(text in "[ab]{1,5}", stream in "[ab]{0,60}") {
            let (mut expected, mut from) = (Vec::new(), 0);
            while let Some(found) = stream[from..].find(&text) {
                from += found + text.len();
                expected.push(from - 1);
            }
            prop_assert_eq!(ends(text.as_bytes(), stream.as_bytes()), expected);
        }
    }
}
