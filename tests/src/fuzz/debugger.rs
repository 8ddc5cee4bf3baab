//! What comes over gdb's connection.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::OnceLock;
use std::time::Duration;

use gdb::{Listener, Options, serve};
use icount::Icount;
use machine::{FirstStep, History, Stops, Timeline, TimelineOptions};
use snapshot::grid::Grid;

use super::bytes::Bytes;
use crate::recorded::begin;
use crate::subject::embedded;
use crate::ways::With;

/// Steps of the recording that is debugged: a search through all of it is quick.
const STEPS: u64 = 30_000;
/// An answer takes less.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server on a recording of the demo, for as long as the process lives.
fn server() -> &'static str {
    static ADDRESS: OnceLock<String> = OnceLock::new();
    ADDRESS.get_or_init(|| {
        let listener = Listener::bind("127.0.0.1:0").expect("a port on the loopback device");
        let address = listener.address().to_owned();
        std::thread::spawn(move || {
            let place = tempfile::tempdir().expect("a temporary folder");
            let dir = place.path().join("a.tick");
            let subject = &embedded().expect("they are placed")[0];
            let mut history = begin(subject, &dir, With::Interp, Grid::fixed(13)).expect("a recording");
            history
                .run_live(Icount(STEPS), &Stops::default(), FirstStep::Counts)
                .expect("the guest runs");
            history.finish(icount::End::Stopped).expect("it is closed");
            let engine = With::Interp.engine().expect("an interpreter");
            let history = History::open(&dir, engine).expect("our own recording");
            let mut timeline = Timeline::new(history, TimelineOptions::default());
            loop {
                let options = Options {
                    host_time: Box::new(|| 0),
                    ending: Box::new(|| false),
                    say: Box::new(|_| {}),
                    script: None,
                };
                // gdb's kill ends it; the next one is served again.
                serve(&mut timeline, &listener, options).expect("no packet ends it otherwise");
            }
        });
        address
    })
}

/// Packets of any content with good checksums, or any bytes.
pub fn packets(input: &[u8]) {
    let mut bytes = Bytes::new(input);
    let mut sent = Vec::new();
    if bytes.byte() & 1 == 0 {
        for body in bytes.rest().split(|byte| *byte == b'\n') {
            let sum = body.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
            sent.push(b'$');
            sent.extend(body);
            sent.extend(format!("#{sum:02x}").bytes());
        }
    } else {
        sent.extend(bytes.rest());
    }
    let mut stream = TcpStream::connect(server()).expect("the server lives");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    stream.set_write_timeout(Some(PATIENCE)).expect("a time limit");
    // It may hang up at any moment.
    let _ = stream.write_all(&sent);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        let hung = matches!(
            error.kind(),
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
        );
        assert!(!hung, "no end after {PATIENCE:?}");
    }
}
