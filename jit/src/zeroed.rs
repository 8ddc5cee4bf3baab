//! Large tables that begin as zeros: their pages come from the host when they are first touched, so that what a guest
//! doesn't use of its many address spaces costs nothing.
//!
//! Unsafe here: the allocation.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};

use crate::tlb::Entry;

/// So many entries, all zeros, i.e. `Entry::default()`.
pub(crate) fn entries(count: usize) -> Box<[Entry]> {
    if count == 0 {
        return Box::default();
    }
    let Ok(layout) = Layout::array::<Entry>(count) else {
        unreachable!("the count is a constant of this crate");
    };
    // SAFETY: the layout has a size, and is that of the slice which is made of the allocation and owns it from then on; zeros
    // are values of all fields of an entry, which are integers.
    unsafe {
        let start = alloc_zeroed(layout).cast::<Entry>();
        if start.is_null() {
            handle_alloc_error(layout);
        }
        Box::from_raw(std::ptr::slice_from_raw_parts_mut(start, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_empty_and_aligned() {
        let entries = entries(1 << 15);
        assert_eq!(entries.len(), 1 << 15);
        assert!(
            entries
                .iter()
                .all(|entry| (entry.read, entry.write, entry.addend, entry.page()) == (0, 0, 0, 0))
        );
        assert_eq!(entries.as_ptr() as usize % 32, 0);
    }
}
