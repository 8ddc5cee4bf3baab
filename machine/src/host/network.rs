//! The other ends of the guest's network cables.
//!
//! ```text
//!   peer ─▶ reader thread ─▶ frames (bounded) ─▶ live door ─▶ (log) ─▶ network card
//!   peer ◀─ writer thread ◀─ frames (bounded) ◀───────────────────── network card
//! ```
//!
//! On the wire are frames behind their length, four bytes, most significant first: the stream that QEMU's
//! `-netdev stream` and passt speak, over a unix socket. Nothing here holds up the guest: when it doesn't take frames, no
//! more are read, and the peer feels that; when the peer doesn't take any, those that the guest sends are lost, as they
//! are while there is no peer. The card's link is up all the time.
//!
//! A peer is as hostile as a guest: a length beyond [`MAX_FRAME`] ends the connection before anything is allocated.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use icount::MAX_NETWORKS;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::control::{Control, Request};
use super::error::HostError;
use super::passt::Passt;
use crate::config::MacAddress;

/// Bytes in the longest frame.
pub(super) const MAX_FRAME: usize = 65_535;
/// Addresses and type; what is shorter is no frame.
const ETHERNET_HEADER: usize = 14;
/// Frames and bytes that wait in one direction.
const MOST_WAITING: usize = 256;
const MOST_BYTES: usize = 1 << 20;
/// What a port tells the user of comings and goings; a peer must not be able to fill the terminal.
const MOST_NOTES: u32 = 16;
/// Between looks whether the run has ended, for a thread that waits for a connection.
const LOOK: Duration = Duration::from_millis(100);
/// How long a peer has at the end of a run to take what was sent.
const LAST_FRAMES: Duration = Duration::from_millis(300);

/// Who opens the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Connects if somebody listens, else listens: of two machines started alike, the first listens.
    #[default]
    Either,
    /// The peer must be there.
    Connect,
    /// Waits for peers, one after the other, while the guest runs.
    Listen,
}

/// What a network card is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkEnd {
    /// A unix socket.
    Socket {
        /// Its path.
        path: PathBuf,
        /// Who connects.
        role: Role,
    },
    /// The host's network, through the helper program passt.
    User {
        /// Ports of the host that lead to the guest, as passt has them: protocol (`t` or `u`) and specification.
        forwards: Vec<(char, String)>,
    },
}

/// All network ports of a machine.
#[derive(Debug)]
pub struct Network {
    ports: Vec<Port>,
    /// The port to look at first.
    next: usize,
}

#[derive(Debug)]
struct Port {
    link: Arc<Link>,
    threads: Vec<JoinHandle<()>>,
    /// The socket's file, if it is ours to remove.
    file: Option<PathBuf>,
    passt: Option<Arc<Passt>>,
}

#[derive(Debug)]
struct Link {
    number: u8,
    control: Control,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    stream: Option<UnixStream>,
    incoming: Waiting,
    outgoing: Waiting,
    /// A peer is there or may come.
    open: bool,
    closing: bool,
    notes: u32,
    /// The user was told that frames are lost.
    told_lost: bool,
}

/// Frames that wait, oldest first.
#[derive(Debug, Default)]
struct Waiting {
    frames: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Waiting {
    fn is_full(&self) -> bool {
        self.frames.len() >= MOST_WAITING || self.bytes >= MOST_BYTES
    }

    fn push(&mut self, frame: Vec<u8>) {
        self.bytes += frame.len();
        self.frames.push_back(frame);
    }

    fn pop(&mut self) -> Option<Vec<u8>> {
        let frame = self.frames.pop_front()?;
        self.bytes -= frame.len();
        Some(frame)
    }
}

/// Where connections come from.
enum Source {
    Listener(UnixListener),
    /// The one that there is.
    Stream(Option<UnixStream>),
}

impl Network {
    /// Connects each end to the card with the address beside it.
    ///
    /// # Errors
    /// A socket that can't be had, nobody at it, or no helper program: all say what to do.
    pub fn open(ends: &[(NetworkEnd, MacAddress)], control: &Control) -> Result<Self, HostError> {
        let mut network = Self {
            ports: Vec::new(),
            next: 0,
        };
        for (number, (end, mac)) in (0..MAX_NETWORKS).zip(ends) {
            network.ports.push(Port::open(number, end, *mac, control)?);
        }
        Ok(network)
    }

    /// The next frame for one of the ports `ready`; they take turns.
    pub(super) fn frame(&mut self, ready: u8) -> Option<(u8, Vec<u8>)> {
        let waiting = self.ports.first()?.link.control.frames() & ready;
        if waiting == 0 {
            return None;
        }
        let count = self.ports.len();
        for index in (self.next..self.next + count).map(|index| index % count) {
            if waiting >> index & 1 == 0 {
                continue;
            }
            if let Some(frame) = self.ports[index].link.take() {
                self.next = index + 1;
                return Some((index as u8, frame));
            }
        }
        None
    }

    /// Sends a frame of the guest's; it is lost if nobody takes it.
    pub(super) fn send(&mut self, port: u8, frame: &[u8]) {
        if let Some(port) = self.ports.get(usize::from(port)) {
            port.link.send(frame);
        }
    }
}

impl Port {
    fn open(number: u8, end: &NetworkEnd, mac: MacAddress, control: &Control) -> Result<Self, HostError> {
        let mut file = None;
        let mut passt = None;
        let source = match end {
            NetworkEnd::Socket { path, role } => {
                let source = socket(path, *role)?;
                file = matches!(source, Source::Listener(_)).then(|| path.clone());
                source
            }
            NetworkEnd::User { forwards } => {
                let (helper, stream) = Passt::start(mac, forwards)?;
                passt = Some(Arc::new(helper));
                Source::Stream(Some(stream))
            }
        };
        let link = Arc::new(Link {
            number,
            control: control.clone(),
            state: Mutex::new(State {
                open: true,
                ..State::default()
            }),
            changed: Condvar::new(),
        });
        link.show(&link.state());
        let mut port = Self {
            link,
            threads: Vec::new(),
            file,
            passt: passt.clone(),
        };
        let link = Arc::clone(&port.link);
        port.thread(move || link.read_all(source, passt.as_deref()))?;
        let link = Arc::clone(&port.link);
        port.thread(move || link.write_all())?;
        Ok(port)
    }

    fn thread(&mut self, work: impl FnOnce() + Send + 'static) -> Result<(), HostError> {
        let builder = std::thread::Builder::new().name(format!("network {}", self.link.number));
        let thread = builder.spawn(work).map_err(|source| HostError::System {
            action: "start a thread for the network",
            source,
        })?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.link.close();
        for thread in self.threads.drain(..) {
            // One that panicked has nothing left to do either.
            let _ = thread.join();
        }
        if let Some(passt) = &self.passt {
            passt.stop();
        }
        if let Some(file) = &self.file {
            // Somebody may have removed it before.
            let _ = fs::remove_file(file);
        }
    }
}

impl Link {
    /// A thread that panicked leaves nothing half-done here.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the machine's thread know what it may wait for.
    fn show(&self, state: &State) {
        let waits = !state.incoming.frames.is_empty();
        self.control
            .set_network(self.number, waits, state.open && !state.closing);
    }

    fn note(&self, what: &str) {
        let mut state = self.state();
        if state.closing || state.notes >= MOST_NOTES {
            return;
        }
        state.notes += 1;
        drop(state);
        let port = self.number;
        self.control
            .request(Request::Note(format!("network port {port}: {what}")));
    }

    fn take(&self) -> Option<Vec<u8>> {
        let mut state = self.state();
        let frame = state.incoming.pop();
        self.show(&state);
        self.changed.notify_all();
        frame
    }

    fn send(&self, frame: &[u8]) {
        let mut state = self.state();
        if state.stream.is_none() {
            return;
        }
        if state.outgoing.is_full() {
            let told = std::mem::replace(&mut state.told_lost, true);
            drop(state);
            if !told {
                self.note("the peer doesn't keep up; frames to it are lost");
            }
            return;
        }
        // One write a frame.
        let mut bytes = (frame.len() as u32).to_be_bytes().to_vec();
        bytes.extend(frame);
        state.outgoing.push(bytes);
        self.changed.notify_all();
    }

    /// Ends both threads; a peer that takes what was sent last gets it.
    fn close(&self) {
        let start = Instant::now();
        let mut state = self.state();
        state.closing = true;
        while state.stream.is_some() && !state.outgoing.frames.is_empty() {
            let Some(left) = LAST_FRAMES.checked_sub(start.elapsed()) else {
                break;
            };
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if let Some(stream) = state.stream.take() {
            // It fails where the peer was faster.
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.show(&state);
        self.changed.notify_all();
    }

    /// The reader thread.
    fn read_all(&self, mut source: Source, passt: Option<&Passt>) {
        while let Some(stream) = source.next(self) {
            if let Ok(writing) = stream.try_clone() {
                let mut state = self.state();
                if state.closing {
                    break;
                }
                state.stream = Some(writing);
                drop(state);
            }
            let error = self.read(stream).err();
            let mut state = self.state();
            if let Some(stream) = state.stream.take() {
                let _ = stream.shutdown(Shutdown::Both);
            }
            state.outgoing = Waiting::default();
            drop(state);
            let why = match (passt, error) {
                (Some(passt), _) => format!("passt: {}", passt.last_words()),
                (None, Some(error)) => error.to_string(),
                (None, None) => "the peer closed the connection".into(),
            };
            let next = match source {
                Source::Listener(_) => "; waiting for another",
                Source::Stream(_) => "; the cable hangs loose from here on",
            };
            self.note(&format!("{why}{next}"));
        }
        let mut state = self.state();
        state.open = false;
        self.show(&state);
        self.changed.notify_all();
    }

    /// Takes frames from a peer until its stream ends, or says something impossible.
    fn read(&self, mut stream: UnixStream) -> io::Result<()> {
        loop {
            let mut len = [0; 4];
            match stream.read_exact(&mut len) {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
                other => other?,
            }
            let len = u32::from_be_bytes(len) as usize;
            if len > MAX_FRAME {
                let what = format!(
                    "the peer announced a frame of {len} bytes, {MAX_FRAME} are possible (does it speak QEMU's stream \
                     protocol?); the connection is closed"
                );
                return Err(io::Error::new(ErrorKind::InvalidData, what));
            }
            let mut frame = vec![0; len];
            stream.read_exact(&mut frame)?;
            if len < ETHERNET_HEADER {
                continue;
            }
            let mut state = self.state();
            while state.incoming.is_full() && !state.closing {
                state = self.wait(state);
            }
            if state.closing {
                return Ok(());
            }
            state.incoming.push(frame);
            self.show(&state);
        }
    }

    /// The writer thread.
    fn write_all(&self) {
        let mut state = self.state();
        loop {
            while state.outgoing.frames.is_empty() || state.stream.is_none() {
                if state.closing && state.stream.is_none() || !state.open {
                    return;
                }
                state = self.wait(state);
            }
            let stream = state.stream.as_ref().map(UnixStream::try_clone);
            let frame = state.outgoing.frames.front().cloned();
            drop(state);
            let result = match (stream, frame) {
                (Some(Ok(mut stream)), Some(frame)) => stream.write_all(&frame),
                (Some(Err(error)), _) => Err(error),
                _ => Ok(()),
            };
            state = self.state();
            // Taken away only now: whoever waits for the last frames waits for this one.
            state.outgoing.pop();
            if result.is_err() {
                // The reader sees it, and tells.
                if let Some(stream) = &state.stream {
                    let _ = stream.shutdown(Shutdown::Both);
                }
                state.outgoing = Waiting::default();
            }
            self.changed.notify_all();
        }
    }
}

impl Source {
    /// Waits for the next connection; there is none when the run ends.
    fn next(&mut self, link: &Link) -> Option<UnixStream> {
        let listener = match self {
            Self::Stream(stream) => return stream.take(),
            Self::Listener(listener) => listener,
        };
        loop {
            if link.state().closing {
                return None;
            }
            match listener.accept() {
                Ok((stream, _)) if stream.set_nonblocking(false).is_ok() => return Some(stream),
                Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    // Out of descriptors, perhaps, which passes.
                    std::thread::sleep(LOOK);
                }
                _ => {}
            }
            let limit = Timespec::try_from(LOOK).ok();
            let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], limit.as_ref());
        }
    }
}

/// Opens one end of a cable between two programs.
fn socket(path: &Path, role: Role) -> Result<Source, HostError> {
    let failed = |action, source| HostError::File {
        action,
        path: path.into(),
        source,
    };
    let kind = fs::symlink_metadata(path).map(|data| data.file_type()).ok();
    if kind.is_some_and(|kind| !kind.is_socket() && !kind.is_symlink()) {
        let what = "it is there, and no socket; give --net socket= another path";
        return Err(failed(
            "use as a network's socket",
            io::Error::new(ErrorKind::AlreadyExists, what),
        ));
    }
    if role != Role::Listen {
        match UnixStream::connect(path) {
            Ok(stream) => return Ok(Source::Stream(Some(stream))),
            Err(error) if role == Role::Connect => {
                let error = match error.kind() {
                    ErrorKind::NotFound | ErrorKind::ConnectionRefused => io::Error::new(
                        error.kind(),
                        "nobody listens there; start the other side first, or leave out ,connect",
                    ),
                    _ => error,
                };
                return Err(failed("connect the network to", error));
            }
            Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                return Err(failed("connect the network to", error));
            }
            Err(_) => {}
        }
    } else if UnixStream::connect(path).is_ok() {
        let what = "another program listens there";
        return Err(failed(
            "listen for a network peer at",
            io::Error::new(ErrorKind::AddrInUse, what),
        ));
    }
    // Nobody listens at a file that is there: it was left behind.
    if kind.is_some_and(|kind| kind.is_socket()) {
        fs::remove_file(path).map_err(|error| failed("remove the dead socket", error))?;
    }
    let listener = match UnixListener::bind(path) {
        // Two that were started alike: the other one was faster.
        Err(error) if error.kind() == ErrorKind::AddrInUse && role == Role::Either => {
            let stream =
                UnixStream::connect(path).map_err(|error| failed("connect the network to", error))?;
            return Ok(Source::Stream(Some(stream)));
        }
        other => other.map_err(|error| failed("listen for a network peer at", error))?,
    };
    listener
        .set_nonblocking(true)
        .map_err(|error| failed("listen for a network peer at", error))?;
    Ok(Source::Listener(listener))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn open(path: &Path, role: Role, control: &Control) -> Result<Network, HostError> {
        let end = NetworkEnd::Socket {
            path: path.into(),
            role,
        };
        Network::open(&[(end, MacAddress::of_port(0))], control)
    }

    fn said(result: Result<Network, HostError>) -> String {
        let error = result.err().unwrap();
        let source = std::error::Error::source(&error).map(ToString::to_string);
        format!("{error}: {}", source.unwrap_or_default())
    }

    fn wait(what: &str, mut done: impl FnMut() -> bool) {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < PATIENCE, "{what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn note(control: &Control) -> String {
        match control.next(PATIENCE) {
            Some(Request::Note(note)) => note,
            other => panic!("{other:?} is no note"),
        }
    }

    fn framed(len: usize) -> Vec<u8> {
        [&(len as u32).to_be_bytes()[..], &vec![7; len]].concat()
    }

    #[test]
    fn two_networks_started_alike_are_one_cable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cable");
        let controls = [Control::new(), Control::new()];
        let mut first = open(&path, Role::Either, &controls[0]).unwrap();
        let mut second = open(&path, Role::Either, &controls[1]).unwrap();
        wait("a frame to the second", || {
            first.send(0, &[1; 60]);
            controls[1].frames() == 1
        });
        assert_eq!(second.frame(0), None, "not for ports without a buffer");
        assert_eq!(second.frame(1), Some((0, vec![1; 60])));
        second.send(0, &[2; MAX_FRAME]);
        wait("a frame to the first", || controls[0].frames() == 1);
        assert_eq!(first.frame(1), Some((0, vec![2; MAX_FRAME])));
        assert!(controls[0].can_come(false, 1) && !controls[0].can_come(false, 0));
        drop(first);
        assert!(note(&controls[1]).contains("the cable hangs loose"));
        wait("the end of the link", || {
            while second.frame(1).is_some() {}
            !controls[1].can_come(false, 1)
        });
        assert!(!path.exists(), "who listened removes the socket");
    }

    #[test]
    fn what_was_sent_last_arrives() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cable");
        let listener = UnixListener::bind(&path).unwrap();
        let mut network = open(&path, Role::Connect, &Control::new()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            peer.read_to_end(&mut all).map(|_| all.len())
        });
        let state = Arc::clone(&network.ports[0].link);
        wait("the link", || state.state().stream.is_some());
        (0..100).for_each(|_| network.send(0, &[3; 1514]));
        drop(network);
        drop(state);
        assert_eq!(reader.join().unwrap().unwrap(), 100 * 1518);
    }

    #[test]
    fn hostile_peers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cable");
        let control = Control::new();
        let mut network = open(&path, Role::Listen, &control).unwrap();
        // An impossible length ends the connection, and the next peer is welcome.
        let mut peer = UnixStream::connect(&path).unwrap();
        peer.write_all(&u32::MAX.to_be_bytes()).unwrap();
        assert!(note(&control).contains("4294967295 bytes"));
        assert_eq!(peer.read(&mut [0; 4]).unwrap(), 0);
        // A peer that stops in a frame's middle, and one that comes and goes.
        let mut peer = UnixStream::connect(&path).unwrap();
        peer.write_all(&framed(60)[..20]).unwrap();
        drop(peer);
        note(&control);
        // Frames without a whole header are none; then more than are kept: the peer is held up, the guest isn't.
        let mut peer = UnixStream::connect(&path).unwrap();
        peer.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        peer.write_all(&[framed(0), framed(13)].concat()).unwrap();
        let frame = framed(1514);
        let mut sent = 0;
        while peer.write_all(&frame).is_ok() {
            sent += 1;
            assert!(sent < 100_000, "nothing holds the peer up");
        }
        assert!(sent >= MOST_WAITING);
        let first = network.frame(1).unwrap();
        assert_eq!(first, (0, vec![7; 1514]));
        // It takes nothing either: what the guest sends is lost, at once, and that is told once.
        let start = Instant::now();
        (0..5000).for_each(|_| network.send(0, &[1; 1514]));
        assert!(start.elapsed() < Duration::from_secs(20));
        assert!(note(&control).contains("lost"));
        assert!(network.ports[0].link.state().outgoing.bytes <= MOST_BYTES + MAX_FRAME + 4);
        drop(peer);
        // Comings and goings are told so often and no more.
        for _ in 0..2 * MOST_NOTES {
            drop(UnixStream::connect(&path).unwrap());
        }
        std::thread::sleep(Duration::from_millis(300));
        let told = std::iter::from_fn(|| control.take()).count();
        assert!(told < MOST_NOTES as usize, "{told}");
    }

    #[test]
    fn sockets_that_are_none() {
        let folder = tempfile::tempdir().unwrap();
        let control = Control::new();
        let path = folder.path().join("x");
        assert!(said(open(&path, Role::Connect, &control)).contains("nobody listens there"));
        fs::write(&path, "").unwrap();
        for role in [Role::Either, Role::Connect, Role::Listen] {
            assert!(said(open(&path, role, &control)).contains("no socket"));
        }
        assert_eq!(fs::read(&path).unwrap(), b"");
        let nowhere = folder.path().join("no/such");
        assert!(said(open(&nowhere, Role::Either, &control)).contains("no/such"));
        // A socket that a killed program left behind is replaced; one that is listened at isn't.
        let dead = folder.path().join("dead");
        drop(UnixListener::bind(&dead).unwrap());
        let network = open(&dead, Role::Listen, &control).unwrap();
        assert!(said(open(&dead, Role::Listen, &control)).contains("another program"));
        drop(network);
        assert!(!dead.exists());
    }
}
