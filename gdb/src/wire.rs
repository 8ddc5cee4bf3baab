//! A connection to gdb: its stream, what its bytes belong to, and the writing side that gdbstub sees.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use gdbstub::conn::Connection;

/// Ctrl-C as gdb sends it, outside of packets.
pub(crate) const CTRL_C: u8 = 3;

/// A gdb that takes nothing for so long is gone.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Stream {
    /// TCP.
    Tcp(TcpStream),
    /// Unix.
    Unix(UnixStream),
}

impl Stream {
    /// Another handle of the same socket.
    pub fn try_clone(&self) -> io::Result<Stream> {
        Ok(match self {
            Stream::Tcp(stream) => Stream::Tcp(stream.try_clone()?),
            Stream::Unix(stream) => Stream::Unix(stream.try_clone()?),
        })
    }

    /// Makes it blocking, without delay, with a limit to how long a write may take.
    pub fn prepare(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                stream.set_write_timeout(Some(PATIENCE))
            }
            Stream::Unix(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_write_timeout(Some(PATIENCE))
            }
        }
    }

    /// Ends both directions, so that a reader of another handle comes back.
    pub fn shutdown(&self) {
        // One that the other side has closed is shut down already.
        let _ = match self {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => Write::write(stream, buffer),
            Stream::Unix(stream) => Write::write(stream, buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Bytes of a packet after which whoever sends it is no gdb.
const LONGEST: usize = 1 << 20;

/// What a byte from gdb is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Of a packet.
    Packet,
    /// Ctrl-C.
    Interrupt,
    /// An acknowledgement, or the request for an answer again that gdb sends when it has waited for a while
    /// (`remotetimeout`, two seconds if nobody sets it). Over a socket nothing gets lost, and the answer is on its way.
    Acknowledgement,
    /// Outside of packets, where gdb sends no such byte.
    Stray,
    /// Of a packet that doesn't end.
    Endless,
}

/// Where in a packet (`$`, the body, `#`, two digits) the bytes from gdb are. Bodies may be binary: only `$` and `#`
/// count, which gdb escapes there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Framing {
    #[default]
    Outside,
    /// Behind a `$` and so many bytes.
    Body(usize),
    /// So many digits of the sum are still to come.
    Sum(u8),
}

impl Framing {
    /// Says what the next byte is.
    pub fn part(&mut self, byte: u8) -> Part {
        let (next, part) = match (*self, byte) {
            (Framing::Outside, b'$') => (Framing::Body(0), Part::Packet),
            (Framing::Outside, CTRL_C) => (Framing::Outside, Part::Interrupt),
            (Framing::Outside, b'+' | b'-') => (Framing::Outside, Part::Acknowledgement),
            (Framing::Outside, _) => (Framing::Outside, Part::Stray),
            (Framing::Body(_), b'#') => (Framing::Sum(2), Part::Packet),
            (Framing::Body(n), _) if n >= LONGEST => (Framing::Body(n), Part::Endless),
            (Framing::Body(n), _) => (Framing::Body(n + 1), Part::Packet),
            (Framing::Sum(2), _) => (Framing::Sum(1), Part::Packet),
            (Framing::Sum(_), _) => (Framing::Outside, Part::Packet),
        };
        *self = next;
        part
    }
}

/// What gdbstub writes to. Whole packets leave at once.
pub(crate) struct Wire {
    stream: Stream,
    out: Vec<u8>,
}

impl Wire {
    /// Over `stream`.
    pub fn new(stream: Stream) -> Wire {
        Wire {
            stream,
            out: Vec::new(),
        }
    }
}

impl Connection for Wire {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> io::Result<()> {
        self.out.push(byte);
        Ok(())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.out.is_empty() {
            let out = std::mem::take(&mut self.out);
            self.stream.write_all(&out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(bytes: &[u8]) -> (Vec<u8>, usize) {
        let (mut framing, mut kept, mut interrupts) = (Framing::default(), Vec::new(), 0);
        for byte in bytes {
            match framing.part(*byte) {
                Part::Acknowledgement => {}
                part => {
                    interrupts += usize::from(part == Part::Interrupt);
                    kept.push(*byte);
                }
            }
        }
        (kept, interrupts)
    }

    #[test]
    fn only_what_stands_outside_of_packets_is_dropped() {
        let x = b"$X80000000,5:+-\x03}\x03#+-";
        let all = [b"-+".as_slice(), x, b"-\x03+$?#3f--", b"$m-1,+1#-+-", b"z"].concat();
        let left = [x.as_slice(), b"\x03$?#3f", b"$m-1,+1#-+", b"z"].concat();
        assert_eq!(kept(&all), (left, 1));
    }

    #[test]
    fn a_packet_of_a_mebibyte_is_endless() {
        let mut framing = Framing::default();
        assert_eq!(framing.part(b'$'), Part::Packet);
        for _ in 0..LONGEST {
            assert_eq!(framing.part(b'$'), Part::Packet);
        }
        let mut ends = framing;
        assert_eq!(framing.part(b'a'), Part::Endless);
        assert_eq!(ends.part(b'#'), Part::Packet);
    }
}
