//! The host's network for a guest, without privileges: the helper program passt (man page passt(1)).
//!
//! passt turns the guest's frames into ordinary sockets of the host, and answers ARP, DHCP and name look-ups itself. Of
//! what could do this it is the one that confines itself (no capabilities, own namespaces, a list of system calls), is
//! packaged by every distribution, and speaks over a stream socket just what [`super::network`] speaks, so that no
//! network stack is part of this program. The guest finds what QEMU's user network has: it is 10.0.2.15/24, the gateway
//! and the host's own loopback are 10.0.2.2, names are asked for at 10.0.2.3. Nothing of the host's own addresses
//! reaches the guest, so a guest does the same on every host.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::error::HostError;
use super::network::MAX_FRAME;
use crate::config::MacAddress;

const GUEST: [u8; 4] = [10, 0, 2, 15];
const GATEWAY: [u8; 4] = [10, 0, 2, 2];
/// How long it may take to answer for the gateway.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it may take to end when its socket was closed.
const LAST_MOMENT: Duration = Duration::from_secs(1);
/// Bytes kept of what it says.
const KEPT: usize = 4096;

/// A running passt. It ends with its socket.
#[derive(Debug)]
pub(super) struct Passt {
    child: Mutex<Child>,
    said: Arc<Mutex<Vec<u8>>>,
}

impl Passt {
    /// Starts it for a card with this address; the socket to it works.
    ///
    /// # Errors
    /// It isn't installed, or gives up: with its own words.
    pub fn start(mac: MacAddress, forwards: &[(char, String)]) -> Result<(Self, UnixStream), HostError> {
        let system = |action| move |source| HostError::System { action, source };
        let (ours, theirs) = UnixStream::pair().map_err(system("make a socket for passt"))?;
        let mut command = Command::new("passt");
        command
            .args(["--foreground", "--quiet", "--one-off", "--fd", "0", "--ipv4-only"])
            .args([
                "--address",
                "10.0.2.15",
                "--netmask",
                "24",
                "--gateway",
                "10.0.2.2",
            ])
            .args(["--mac-addr", "52:55:0a:00:02:02", "--mtu", "1500"])
            .args([
                "--dns",
                "10.0.2.3",
                "--dns-forward",
                "10.0.2.3",
                "--no-dhcp-search",
            ]);
        for (protocol, ports) in forwards {
            command.arg(format!("-{protocol}")).arg(ports);
        }
        command
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Ctrl-C ends the run, which ends it.
            .process_group(0);
        let mut child = command.spawn().map_err(|source| match source.kind() {
            ErrorKind::NotFound => HostError::Helper {
                program: "passt",
                why: "--net user needs it and it is not installed; install the package passt (Debian: apt install passt)"
                    .into(),
            },
            _ => HostError::System {
                action: "start passt",
                source,
            },
        })?;
        // The other end of its socket was in here.
        drop(command);
        let said = Arc::new(Mutex::new(Vec::new()));
        if let Some(stderr) = child.stderr.take() {
            let said = Arc::clone(&said);
            std::thread::Builder::new()
                .name("passt".into())
                .spawn(move || listen(stderr, &said))
                .map_err(system("start a thread for passt"))?;
        }
        let passt = Self {
            child: Mutex::new(child),
            said,
        };
        match passt.probe(&ours, mac) {
            Ok(()) => Ok((passt, ours)),
            Err(error) => {
                drop(ours);
                passt.stop();
                let words = passt.last_words();
                let why = if error.kind() == ErrorKind::UnexpectedEof {
                    words
                } else {
                    format!("it does not answer ({error}); {words}")
                };
                Err(HostError::Helper {
                    program: "passt",
                    why,
                })
            }
        }
    }

    /// Asks for the gateway's address as the guest would: once there is an answer, the guest has a network. What else
    /// comes before is of nobody's concern.
    fn probe(&self, mut stream: &UnixStream, mac: MacAddress) -> io::Result<()> {
        let mut question = 42_u32.to_be_bytes().to_vec();
        question.extend([0xff; 6]);
        question.extend(mac.0);
        // ARP (RFC 826): Ethernet, IPv4, 6 and 4 bytes, request.
        question.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        question.extend(mac.0);
        question.extend(GUEST);
        question.extend([0; 6]);
        question.extend(GATEWAY);
        stream.write_all(&question).or_else(|error| match error.kind() {
            // It is gone, which reading tells.
            ErrorKind::BrokenPipe => Ok(()),
            _ => Err(error),
        })?;
        let start = Instant::now();
        loop {
            let left = PATIENCE
                .checked_sub(start.elapsed())
                .filter(|left| !left.is_zero());
            let left = left.ok_or(ErrorKind::TimedOut)?;
            stream.set_read_timeout(Some(left))?;
            let mut len = [0; 4];
            stream.read_exact(&mut len).map_err(gone)?;
            let mut frame = vec![0; (u32::from_be_bytes(len) as usize).min(MAX_FRAME)];
            stream.read_exact(&mut frame).map_err(gone)?;
            if frame.get(12..14) == Some(&[8, 6]) {
                return stream.set_read_timeout(None);
            }
        }
    }

    /// The last that it said, for whoever wonders why it ended.
    pub fn last_words(&self) -> String {
        // The thread that listens may be behind by a moment.
        std::thread::sleep(Duration::from_millis(20));
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&said);
        let worth = |line: &&str| !line.is_empty() && !line.contains("syslog") && !line.contains("as root");
        match text.lines().map(str::trim).rfind(worth) {
            Some(line) => format!("it ended: {line}"),
            None => "it ended without a word".into(),
        }
    }

    /// Waits for its end, after its socket was closed; one that stays is killed.
    pub fn stop(&self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let start = Instant::now();
        while matches!(child.try_wait(), Ok(None)) {
            if start.elapsed() > LAST_MOMENT {
                let _ = child.kill();
                let _ = child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Passt {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A socket that was reset was closed.
fn gone(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => ErrorKind::UnexpectedEof.into(),
        ErrorKind::WouldBlock => ErrorKind::TimedOut.into(),
        _ => error,
    }
}

/// Keeps the last that it says, so that it never waits for a reader.
fn listen(mut stderr: ChildStderr, said: &Mutex<Vec<u8>>) {
    let mut piece = [0; 1024];
    while let Ok(count @ 1..) = stderr.read(&mut piece) {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend_from_slice(&piece[..count]);
        let surplus = said.len().saturating_sub(KEPT);
        said.drain(..surplus);
    }
}
