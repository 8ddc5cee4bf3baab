//! Stands between gdb and the server, and knows from their packets whether the machine runs: Ctrl-C at another time is
//! gdb's own affair, and on a busy host no sleep tells the one from the other.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::PATIENCE;

/// For one connection.
pub struct Relay {
    /// Where gdb connects.
    pub address: String,
    running: Arc<AtomicBool>,
}

impl Relay {
    /// To the server at that TCP address.
    pub fn to(server: &str) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let running = Arc::new(AtomicBool::new(false));
        let (server, seen) = (server.to_owned(), Arc::clone(&running));
        std::thread::spawn(move || {
            let (gdb, server) = (listener.accept().unwrap().0, TcpStream::connect(server).unwrap());
            for stream in [&gdb, &server] {
                stream.set_nodelay(true).unwrap();
            }
            let (to_gdb, from_server) = (gdb.try_clone().unwrap(), server.try_clone().unwrap());
            let stops = Arc::clone(&seen);
            std::thread::spawn(move || {
                pass(from_server, to_gdb, &[b"$T", b"$S", b"$W", b"$X"], &stops, false)
            });
            pass(gdb, server, &[b"$vCont;c", b"$bc#"], &seen, true);
        });
        Relay { address, running }
    }

    /// Waits until the machine has been told to run on.
    pub fn wait_for_run(&self) {
        let slice = Duration::from_millis(10);
        for _ in 0..PATIENCE.as_millis() / slice.as_millis() {
            if self.running.load(Ordering::SeqCst) {
                return;
            }
            std::thread::sleep(slice);
        }
        panic!("the machine was not told to run in {PATIENCE:?}");
    }
}

/// Hands on what comes, until one side ends. Whoever sends one of `words`, even in pieces, sets `running`.
fn pass(mut from: TcpStream, mut to: TcpStream, words: &[&[u8]], running: &AtomicBool, value: bool) {
    let mut buffer = [0; 4096];
    let mut text = Vec::new();
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        text.extend_from_slice(&buffer[..n]);
        if words
            .iter()
            .any(|word| text.windows(word.len()).any(|part| part == *word))
        {
            running.store(value, Ordering::SeqCst);
            text.clear();
        }
        // The beginning of a word may be its end.
        text.drain(..text.len().saturating_sub(8));
        if to.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    // Either may be gone.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
