//! Networks: recorded with a peer at the cable, replayed without one.
//!
//! The peers are a few lines of ours that answer ARP and ICMP, Linux against Linux, and passt with a server of the host's
//! behind it; the guests are Debian's kernels with busybox.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use icount::{Body, Effect, End, Input, LogReader};
use machine::History;
use machine::config::{MacAddress, NetworkConfig};
use machine::history::{RecordOptions, events_path};
use machine::host::{
    ClockMode, Console, ConsoleScript, Control, LiveDoor, Network, NetworkEnd, Role, Stopwatch,
};
use machine::{FirstStep, Stopped, Stops};
use snapshot::RecorderOptions;
use snapshot::grid::Grid;
use tests::debian::{boot, images, skipped, x86_boot, x86_images};
use tests::subject::Subject;
use tests::ways::{Run, With};
use tests::{recorded, recorded::replay};

const LIMIT: u64 = 60_000_000_000;

/// Records `subject` with a cable to `end` and the host's time, and yields what it said. It must switch itself off.
fn record(subject: &mut Subject, end: NetworkEnd, dir: &Path) -> String {
    let mac = MacAddress::of_port(0);
    subject.config.networks = vec![NetworkConfig { mac }];
    let control = Control::new();
    let network = Network::open(&[(end, mac)], &control).unwrap();
    let door = LiveDoor::new(control, Console::none())
        .clock(ClockMode::Real, subject.config.ns_per_step)
        .script(ConsoleScript::parse(&subject.script).unwrap())
        .network(network);
    let watch = Stopwatch::start();
    let options = RecordOptions {
        grid: Grid::fixed(28),
        recorder: RecorderOptions::default(),
        host_time: Box::new(move || watch.now()),
        origin: Default::default(),
        fsync: false,
        retention: Default::default(),
    };
    let images = subject.images.clone();
    let door = Box::new(door);
    let engine = With::Jit.engine().unwrap();
    let mut history = History::record(dir, &subject.config, images, door, engine, options).unwrap();
    let limit = icount::Icount(LIMIT);
    let stopped = loop {
        // A live run comes back now and then.
        match history.run_live(limit, &Stops::default(), FirstStep::Counts) {
            Ok(Stopped::Reached) if history.machine().icount() < limit => {}
            stopped => break stopped,
        }
    };
    let said = || String::from_utf8_lossy(&recorded::console(dir).unwrap_or_default()).into_owned();
    match stopped.unwrap() {
        Stopped::End(end @ End::PowerOff(0)) => {
            history.finish(end).unwrap();
        }
        other => panic!("{other:?}: {}", said()),
    }
    said()
}

/// Everything again, by another engine too, with nobody at the cable. Yields the frames that came and went.
fn replays(dir: &Path, engines: &[With]) -> (usize, usize) {
    for engine in engines {
        let Run::Replaying(mut history) = replay(dir, *engine).unwrap() else {
            panic!()
        };
        history.verify(|_| {}).unwrap();
    }
    let log = LogReader::open(&events_path(dir)).unwrap();
    let (mut came, mut went) = (0, 0);
    for event in log.events_from(icount::Icount(0)).unwrap() {
        match event.unwrap().body {
            Body::Input(Input::Frame { .. }) => came += 1,
            Body::Effect(Effect::FrameOut { .. }) => went += 1,
            _ => {}
        }
    }
    (came, went)
}

fn script(commands: &str) -> String {
    format!(
        "wait tickback: shell ready\nwait # \nsend {commands}; echo DO''NE\\n\nwait DONE\nwait # \nsend poweroff -f\\n\n"
    )
}

/// Answers for 10.0.2.2: ARP (RFC 826) and echo requests (RFC 792), until the stream ends.
fn answer(mut stream: UnixStream) {
    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
    let mut len = [0; 4];
    while stream.read_exact(&mut len).is_ok() {
        let mut frame = vec![0; u32::from_be_bytes(len) as usize];
        if stream.read_exact(&mut frame).is_err() {
            return;
        }
        let (to, from) = ([0, 6], [6, 12]);
        frame.copy_within(from[0]..from[1], to[0]);
        frame[from[0]..from[1]].copy_from_slice(&MAC);
        match (&frame[12..14], frame.get(21), frame.get(23), frame.get(34)) {
            // A request becomes an answer: who asked is the target, and we are the sender.
            ([8, 6], Some(1), ..) if frame.get(38..42) == Some(&[10, 0, 2, 2]) => {
                frame[21] = 2;
                frame.copy_within(22..32, 32);
                frame[22..28].copy_from_slice(&MAC);
                frame[28..32].copy_from_slice(&[10, 0, 2, 2]);
            }
            // IPv4 without options, ICMP, echo request: to be an answer, its checksum grows by the type's 8 × 256.
            ([8, 0], _, Some(1), Some(8)) => {
                let addresses: Vec<u8> = [&frame[30..34], &frame[26..30]].concat();
                frame[26..34].copy_from_slice(&addresses);
                frame[34] = 0;
                let sum = u32::from(u16::from_be_bytes([frame[36], frame[37]])) + 0x800;
                let sum = (sum + (sum >> 16)) as u16;
                frame[36..38].copy_from_slice(&sum.to_be_bytes());
            }
            _ => continue,
        }
        let sent = stream.write_all(&len).and_then(|()| stream.write_all(&frame));
        if sent.is_err() {
            return;
        }
    }
}

const PING: &str =
    "ip link set eth0 up; ip addr add 10.0.2.15/24 dev eth0; ping -c 3 -i 0.1 -s 1400 10.0.2.2";

/// The console is virtio's, too.
fn pings(mut subject: Subject, engines: &[With]) {
    subject.config.virtio_console = true;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cable");
    let listener = UnixListener::bind(&path).unwrap();
    let peer = std::thread::spawn(move || answer(listener.accept().unwrap().0));
    let dir = folder.path().join("ping.tick");
    let end = NetworkEnd::Socket {
        path,
        role: Role::Connect,
    };
    let said = record(&mut subject, end, &dir);
    peer.join().unwrap();
    assert!(
        said.contains("3 packets transmitted, 3 packets received, 0% packet loss"),
        "{said}"
    );
    let typed = LogReader::open(&events_path(&dir)).unwrap();
    let port = typed
        .events_from(icount::Icount(0))
        .unwrap()
        .find_map(|event| match event.unwrap().body {
            Body::Input(Input::Console { port, .. }) => Some(port),
            _ => None,
        });
    assert_eq!(port, Some(icount::VIRTIO_CONSOLE), "the shell's console");
    let (came, went) = replays(&dir, engines);
    assert!(came >= 4 && went >= 4, "{came} {went}");
}

#[test]
fn a_riscv_guest_pings_and_its_replay_needs_no_network() {
    let Some(dir) = images("a_riscv_guest_pings_and_its_replay_needs_no_network") else {
        return;
    };
    let subject = boot(&dir, "ping", 1, "console=hvc0 quiet", &script(PING)).unwrap();
    pings(subject, &[With::Jit, With::PlainJit]);
}

#[test]
fn an_amd64_guest_pings_and_its_replay_needs_no_network() {
    let name = "an_amd64_guest_pings_and_its_replay_needs_no_network";
    let Some(dir) = x86_images(name, &["vmlinuz", "initramfs.cpio.gz"]) else {
        return;
    };
    let subject = x86_boot(&dir, "ping", 1, "console=hvc0 quiet", &script(PING)).unwrap();
    pings(subject, &[With::Jit]);
}

#[test]
fn two_machines_talk_and_each_replays_alone() {
    let name = "two_machines_talk_and_each_replays_alone";
    let Some(dir) = images(name) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cable");
    let machine = |own: u8, commands: &str| {
        let commands = format!("ip link set eth0 up; ip addr add 10.0.2.{own}/24 dev eth0; {commands}");
        let subject = boot(&dir, &format!("machine {own}"), 1, "quiet", &script(&commands)).unwrap();
        let (path, dir) = (path.clone(), folder.path().join(format!("{own}.tick")));
        std::thread::spawn(move || {
            let mut subject = subject;
            subject.config.seed = own.into();
            let end = NetworkEnd::Socket {
                path,
                role: Role::Either,
            };
            record(&mut subject, end, &dir)
        })
    };
    let server = machine(1, "echo ask | nc -l -p 7 > /got; cat /got");
    let client = machine(
        2,
        "until ping -c 1 -W 1 10.0.2.1; do :; done; until echo tell | nc 10.0.2.1 7; do :; done",
    );
    let (server, client) = (server.join().unwrap(), client.join().unwrap());
    assert!(server.contains("tell"), "{server}");
    assert!(client.contains("\r\nask"), "{client}");
    for own in [1, 2] {
        let (came, went) = replays(&folder.path().join(format!("{own}.tick")), &[With::Jit]);
        assert!(came > 5 && went > 5, "machine {own}: {came} {went}");
    }
}

#[test]
fn the_host_s_network_by_passt() {
    let name = "the_host_s_network_by_passt";
    let Some(dir) = images(name) else { return };
    if Command::new("passt").arg("--version").output().is_err() {
        return skipped(&format!("{name}: passt is not installed"));
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // All of the request: a socket closed with some of it unread would be reset.
        let mut asked = Vec::new();
        while !asked.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            asked.push(byte[0]);
        }
        let body = "from the host\n".repeat(2000);
        let answer = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(answer.as_bytes()).unwrap();
        asked
    });
    let commands = format!(
        "ip link set eth0 up; udhcpc -i eth0 -n -q -s /bin/true; ip addr add 10.0.2.15/24 dev eth0; \
         wget -q -O - http://10.0.2.2:{port}/file | wc"
    );
    let mut subject = boot(&dir, "passt", 1, "quiet", &script(&commands)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("passt.tick");
    let end = NetworkEnd::User { forwards: Vec::new() };
    let said = record(&mut subject, end, &dir);
    assert!(
        said.contains("lease of 10.0.2.15 obtained from 10.0.2.2"),
        "{said}"
    );
    assert!(said.contains("2000      6000     28000"), "{said}");
    assert_eq!(&server.join().unwrap()[..9], b"GET /file");
    replays(&dir, &[With::Jit]);
}

/// A port of the host leads to a server in the guest.
#[test]
fn the_host_reaches_a_guest_by_a_forwarded_port() {
    let name = "the_host_reaches_a_guest_by_a_forwarded_port";
    let Some(dir) = images(name) else { return };
    if Command::new("passt").arg("--version").output().is_err() {
        return skipped(&format!("{name}: passt is not installed"));
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let commands = "ip link set eth0 up; ip addr add 10.0.2.15/24 dev eth0; ip route add default via 10.0.2.2; \
                    seq 1 2000 | nc -l -p 80 > /asked; cat /asked";
    let mut subject = boot(&dir, "hostfwd", 1, "quiet", &script(commands)).unwrap();
    // Passt takes a connection before the guest does, and drops it if that doesn't answer.
    let client = std::thread::spawn(move || {
        for _ in 0..3000 {
            std::thread::sleep(Duration::from_millis(100));
            let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
                continue;
            };
            let mut got = String::new();
            // The guest's nc ends when this side closes: not before all of its answer is here.
            let asked = stream.write_all(b"asked by the host\n");
            if asked.is_ok() && stream.read_to_string(&mut got).is_ok() && !got.is_empty() {
                return got;
            }
        }
        String::new()
    });
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("hostfwd.tick");
    let end = NetworkEnd::User {
        forwards: vec![('t', format!("127.0.0.1/{port}:80"))],
    };
    let said = record(&mut subject, end, &dir);
    assert!(said.contains("asked by the host"), "{said}");
    let got = client.join().unwrap();
    assert!(got.starts_with("1\n2\n") && got.ends_with("\n2000\n"), "{got}");
    replays(&dir, &[With::Jit]);
}

/// QEMU's `-netdev stream` speaks what `--net socket=PATH` does.
#[test]
fn a_qemu_is_a_peer() {
    let name = "a_qemu_is_a_peer";
    let Some(dir) = x86_images(name, &["vmlinuz", "initramfs.cpio.gz"]) else {
        return;
    };
    if Command::new("qemu-system-x86_64")
        .arg("--version")
        .output()
        .is_err()
    {
        return skipped(&format!("{name}: qemu-system-x86_64 is not installed"));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cable");
    let commands = "ip link set eth0 up; ip addr add 10.0.2.1/24 dev eth0; echo from tickback | nc -l -p 7 > /got; cat /got";
    let mut subject = x86_boot(&dir, "peer", 1, "quiet", &script(commands)).unwrap();
    let recording = folder.path().join("peer.tick");
    let theirs = {
        let (dir, path) = (dir.clone(), path.clone());
        std::thread::spawn(move || qemu_peer(&dir, &path))
    };
    let end = NetworkEnd::Socket {
        path,
        role: Role::Listen,
    };
    let said = record(&mut subject, end, &recording);
    let theirs = theirs.join().unwrap();
    assert!(said.contains("from qemu"), "{said}\n{theirs}");
    assert!(theirs.contains("\r\nfrom tickback"), "{theirs}");
    replays(&recording, &[With::Jit]);
}

/// Runs Debian under QEMU at the other end of a cable, for three minutes at most; yields what it said.
fn qemu_peer(dir: &Path, cable: &Path) -> String {
    while !cable.exists() {
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut qemu = Command::new("timeout")
        .args([
            "180",
            "qemu-system-x86_64",
            "-m",
            "256",
            "-nodefaults",
            "-display",
            "none",
            "-no-reboot",
            "-serial",
            "stdio",
        ])
        .args(["-append", "console=ttyS0 quiet", "-kernel"])
        .arg(dir.join("vmlinuz"))
        .arg("-initrd")
        .arg(dir.join("initramfs.cpio.gz"))
        .arg("-netdev")
        .arg(format!(
            "stream,id=n,server=off,addr.type=unix,addr.path={}",
            cable.display()
        ))
        .args(["-device", "virtio-net-pci,netdev=n,romfile="])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut keys, mut screen) = (qemu.stdin.take().unwrap(), qemu.stdout.take().unwrap());
    let (mut said, mut typed) = (Vec::new(), 0);
    // What it shows, and what is typed then.
    let lines: [(&[u8], &[u8]); 2] = [
        (b"/ # ", b"ip link set eth0 up; ip addr add 10.0.2.2/24 dev eth0; \
          n=0; until echo from qemu | nc -w 5 10.0.2.1 7 || [ $((n+=1)) = 50 ]; do sleep 0.2; done; echo DO''NE\n"),
        (b"DONE", b"poweroff -f\n"),
    ];
    let mut byte = [0];
    while screen.read(&mut byte).is_ok_and(|len| len == 1) {
        said.push(byte[0]);
        if let Some((ready, line)) = lines.get(typed)
            && said.ends_with(ready)
        {
            keys.write_all(line).unwrap();
            typed += 1;
        }
    }
    let _ = qemu.wait();
    String::from_utf8_lossy(&said).into_owned()
}
