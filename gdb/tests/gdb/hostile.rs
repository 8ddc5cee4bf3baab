//! Whoever connects may send anything: it ends in an error reply or in the session's end, never in a panic, and the
//! next one is served.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use machine::icount::Icount;

use crate::support::{Folder, PATIENCE, Server, UNUSED, counting};

struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }
}

fn packet(body: &[u8]) -> Vec<u8> {
    let sum = body.iter().fold(0u8, |sum, b| sum.wrapping_add(*b));
    let mut packet = vec![b'$'];
    packet.extend_from_slice(body);
    packet.extend_from_slice(format!("#{sum:02x}").as_bytes());
    packet
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Of all that can go wrong with a connection only this may: the server has hung up.
fn hung_up(result: std::io::Result<()>) {
    if let Err(error) = result {
        let kinds = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
        assert!(kinds.contains(&error.kind()), "{error:?}");
    }
}

/// Sends bytes and reads to the end of the connection.
fn send(server: &Server, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(server);
    hung_up(stream.write_all(bytes));
    // The server may have done it already.
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    hung_up(stream.read_to_end(&mut answer).map(|_| ()));
    answer
}

fn is_alive(server: &Server) -> bool {
    let answer = send(server, &packet(b"qSupported:swbreak+"));
    answer.starts_with(b"+$PacketSize=")
}

const WORDS: &[&[u8]] = &[
    b"qSupported:",
    b"QStartNoAckMode",
    b"?",
    b"g",
    b"G",
    b"p",
    b"P",
    b"m",
    b"M",
    b"X",
    b"x",
    b"vCont",
    b"vCont;s:1",
    b"vCont;c",
    b"vCont;r80000000,80000004:1",
    b"bs",
    b"bc",
    b"c",
    b"s",
    b"Hg",
    b"Hc",
    b"Hc0",
    b"Hc-1",
    b"Hgp1.5",
    b"T",
    b"Z0,",
    b"Z1,",
    b"Z2,",
    b"Z3,",
    b"Z4,",
    b"z0,",
    b"z2,",
    b"qRcmd,",
    b"qRcmd,676f746f203565",
    b"qRcmd,6c6173742d777269746520302031",
    b"qXfer:features:read:target.xml:",
    b"qfThreadInfo",
    b"qsThreadInfo",
    b"qThreadExtraInfo,",
    b"D",
    b"vKill;",
    b"vFile:open:",
    b"QTinit",
    b"vRun",
    b"!",
    b"R00",
    b"qC",
    b"0",
    b"ffffffffffffffff",
    b"80000000",
    b"1",
    b",",
    b";",
    b":",
    b"-1",
    b"=",
    b"00",
    b"p1.1",
    b"all",
    b"*",
    b"}",
];

#[test]
fn random_bytes_never_panic() {
    let folder = Folder::new(counting());
    let (history, _) = folder.record_until(1, Icount(200_000));
    let server = Server::start(history, "0");
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..300 {
        let mut bytes = if round % 4 == 0 {
            vec![b'+']
        } else {
            packet(b"QStartNoAckMode")
        };
        for _ in 0..random.next(12) {
            match random.next(4) {
                0 => bytes.extend((0..random.next(40)).map(|_| random.next(256) as u8)),
                1 => bytes.push(b"$#+-\x03}"[random.next(6)]),
                _ => {
                    let mut body = Vec::new();
                    for _ in 0..=random.next(4) {
                        body.extend_from_slice(WORDS[random.next(WORDS.len())]);
                    }
                    bytes.extend(packet(&body));
                }
            }
        }
        // `kill` ends the server, which is what it is for.
        if bytes.windows(2).any(|w| w == b"$k" || w == b"$v") && bytes.windows(6).any(|w| w == b"$vKill") {
            continue;
        }
        if bytes.windows(2).any(|w| w == b"$k") {
            continue;
        }
        send(&server, &bytes);
    }
    assert!(is_alive(&server));
    server.finish();
}

#[test]
fn packets_on_the_edge() {
    let folder = Folder::new(counting());
    let (history, _) = folder.record_until(1, Icount(200_000));
    let server = Server::start(history, "0");
    let long = [b"m80000000,".to_vec(), vec![b'0'; 100_000]].concat();
    let bodies: &[&[u8]] = &[
        b"mffffffffffffffff,1",
        b"mffffffffffffff00,ffff",
        b"m80000000,ffffff",
        b"m0,0",
        b"Mffffffffffffffff,2:0000",
        b"Z0,ffffffffffffffff,4",
        b"Z2,ffffffffffffffff,8",
        b"Z2,80000000,ffffffffffffffff",
        b"Z2,80000000,0",
        b"Z4,8000fffe,ffff",
        b"z0,80000000,4",
        b"pffffffffffffffff",
        b"p1041",
        b"P20=01",
        b"P20=0100000000000000",
        b"G00",
        b"Hgp1.ffffffff",
        b"vCont;s:ffff",
        b"vCont;s",
        b"vCont;r1,0:1",
        b"qXfer:features:read:target.xml:ffffffffffffffff,ffff",
        b"qXfer:features:read:other.xml:0,10",
        b"qRcmd,ff",
        b"qRcmd,",
        // goto 99999999999999999999; back 1e99; last-write 0xffffffffffffffff 8; events 0 1e19
        b"qRcmd,676f746f203939393939393939393939393939393939393939",
        b"qRcmd,6261636b2031653939",
        b"qRcmd,6c6173742d7772697465203078666666666666666666666666666666662038",
        b"qRcmd,6576656e7473203020316531 39",
        &long,
    ];
    for body in bodies {
        send(
            &server,
            &[packet(b"QStartNoAckMode"), b"+".to_vec(), packet(body)].concat(),
        );
        assert!(
            is_alive(&server),
            "{}",
            String::from_utf8_lossy(&body[..body.len().min(80)])
        );
    }
    // Many breakpoints: refused at some point, and nothing else.
    let mut many = packet(b"QStartNoAckMode");
    for i in 0..3000 {
        many.extend(packet(format!("Z0,{:x},4", 0x8000_0000u64 + 4 * i).as_bytes()));
    }
    let answer = String::from_utf8_lossy(&send(&server, &many)).into_owned();
    assert_eq!(answer.matches("$OK#9a").count(), 1001);
    assert_eq!(answer.matches("$E").count(), 2000);
    server.finish();
}

#[test]
fn a_browser_is_hung_up_on() {
    let folder = Folder::new(counting());
    let (history, _) = folder.record_until(1, Icount(1000));
    let server = Server::start(history, "0");
    let text = [b"POST / HTTP/1.1\r\n\r\n".to_vec(), packet(b"vCont;c")].concat();
    assert!(send(&server, &text).is_empty());
    assert!(is_alive(&server));
}

/// The time from Ctrl-C to the stop is a small part of a second, in both directions: the better of two each, since the
/// host may be busy.
#[test]
fn ctrl_c_is_prompt() {
    let folder = Folder::new(counting());
    let (history, end) = folder.record_until(1, Icount(600_000_000));
    let server = Server::start(history, "0");
    let mut stream = connect(&server);
    let mut ask = |bytes: &[u8], until: &str| {
        stream.write_all(bytes).unwrap();
        let mut answer = String::new();
        let mut buffer = [0; 4096];
        while !answer.contains(until) {
            let n = stream.read(&mut buffer).unwrap();
            assert!(n > 0, "{answer}");
            answer.push_str(&String::from_utf8_lossy(&buffer[..n]));
        }
        answer
    };
    ask(&packet(b"QStartNoAckMode"), "OK#9a");
    // A watchpoint that is never hit makes both directions search.
    ask(&packet(format!("Z2,{UNUSED:x},8").as_bytes()), "OK#9a");
    let interrupt = |ask: &mut dyn FnMut(&[u8], &str) -> String, body: &[u8], wait: u64| {
        ask(&packet(body), "");
        std::thread::sleep(Duration::from_millis(wait));
        #[allow(clippy::disallowed_methods)] // What is measured is the host's time.
        let start = std::time::Instant::now();
        let answer = ask(b"\x03", "thread:");
        let taken = start.elapsed();
        assert!(answer.contains("$T02"), "{answer}");
        taken
    };
    let forward = [100, 20].map(|wait| interrupt(&mut ask, b"vCont;c", wait));
    ask(
        &packet(format!("qRcmd,{}", hex(&format!("goto {}", end.0))).as_bytes()),
        "OK#9a",
    );
    let backward = [300, 20].map(|wait| interrupt(&mut ask, b"bc", wait));
    let when = ask(&packet(format!("qRcmd,{}", hex("when")).as_bytes()), "OK#9a");
    assert!(
        when.contains(&hex("icount 600_000_000")),
        "a search that is interrupted ends where it began"
    );
    for times in [forward, backward] {
        assert!(times[0].min(times[1]) < Duration::from_millis(500), "{times:?}");
    }
}

/// A client without acknowledgements that has been greeted.
struct Client(TcpStream);

impl Client {
    fn new(server: &Server) -> Client {
        let mut client = Client(connect(server));
        client.ask(&packet(b"QStartNoAckMode"), "OK#9a");
        client
    }

    fn ask(&mut self, bytes: &[u8], until: &str) -> String {
        self.0.write_all(bytes).unwrap();
        let mut answer = String::new();
        let mut buffer = [0; 4096];
        while !answer.contains(until) {
            let n = self.0.read(&mut buffer).unwrap();
            assert!(n > 0, "{answer}");
            answer.push_str(&String::from_utf8_lossy(&buffer[..n]));
        }
        answer
    }

    /// What a monitor command says, and its end.
    fn monitor(&mut self, line: &str) -> String {
        let packet = packet(format!("qRcmd,{}", hex(line)).as_bytes());
        let answer = self.ask(&packet, "$OK#9a");
        let texts = answer.split("$O").filter_map(|part| part.split_once('#'));
        let bytes = texts.flat_map(|(text, _)| {
            let digits = text.as_bytes().chunks_exact(2);
            digits.filter_map(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 16).ok())
        });
        String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
    }
}

/// gdb asks for the answer again when one takes longer than its `remotetimeout`.
#[test]
fn impatience_ends_no_session() {
    let folder = Folder::new(counting());
    let (history, end) = folder.record_until(1, Icount(50_000_000));
    let server = Server::start(history, "0");
    let mut client = Client::new(&server);
    let goto = packet(format!("qRcmd,{}", hex(&format!("goto {}", end.0))).as_bytes());
    client.0.write_all(&goto).unwrap();
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(10));
        client.0.write_all(b"-").unwrap();
    }
    client.ask(b"+-", "$OK#9a");
    client.0.write_all(b"-").unwrap();
    assert!(client.monitor("when").contains("icount 50_000_000 of 50_000_000"));
    // Binary data that looks like all of these, and the escapes of `#` and `$`.
    let data = b"-+\x03}\x03}\x04-";
    let write = [format!("X{UNUSED:x},6:").as_bytes(), data].concat();
    client.ask(&packet(&write), "$OK#9a");
    let read = packet(format!("m{UNUSED:x},6").as_bytes());
    client.ask(&[b"-".as_slice(), &read, b"-"].concat(), "$2d2b0323242d#");
    server.finish();
}

/// Whoever sends a packet without an end is hung up on, also while the machine runs.
#[test]
fn a_packet_without_an_end() {
    let folder = Folder::new(counting());
    let server = Server::start(folder.begin(1), "0");
    for run in [false, true] {
        let mut client = Client::new(&server);
        if run {
            client.0.write_all(&packet(b"vCont;c")).unwrap();
        }
        let endless = [b"$".to_vec(), vec![b'a'; 3 << 20]].concat();
        // The server hangs up on the way.
        hung_up(client.0.write_all(&endless));
        hung_up(client.0.read_to_end(&mut Vec::new()).map(|_| ()));
    }
    assert!(is_alive(&server));
    server.finish();
}

#[test]
fn goto_has_a_limit_on_a_branch_and_in_a_recording() {
    let folder = Folder::new(counting());
    let (history, _) = folder.record_until(1, Icount(1_000_000));
    let server = Server::start(history, "0");
    let mut client = Client::new(&server);
    let text = client.monitor("goto 1e15");
    assert!(!text.contains("branch"), "{text}");
    assert!(
        text.contains("1_000_000_000_000_000 lies beyond the end of the recording\n")
            && text.contains("icount 1_000_000 of 1_000_000"),
        "{text}"
    );
    assert!(!client.monitor("goto 500_000").contains("beyond"));
    client.ask(&packet(format!("M{UNUSED:x},1:07").as_bytes()), "$OK#9a");
    for _ in 0..3 {
        client.ask(&packet(b"vCont;s:p1.1"), "thread:");
    }
    let refused = "this is a branch, which has no end; go back before 500_000 first";
    for to in ["end", "50%", "500_004", "1e15"] {
        let text = client.monitor(&format!("goto {to}"));
        assert!(text.contains(refused), "{to}: {text}");
    }
    assert!(client.monitor("back 2").contains("icount 500_001, on a branch"));
    // As far as it has been.
    assert!(
        client
            .monitor("goto 500_003")
            .contains("icount 500_003, on a branch")
    );
    assert!(
        client
            .monitor("goto 500_004")
            .contains("or no further than 500_003")
    );
    drop(client);
    // The next one is told.
    let mut client = Client::new(&server);
    let text = client.monitor("when");
    assert!(
        text.contains("this is a branch that left the recording at 500_000"),
        "{text}"
    );
    assert!(client.monitor("goto 500_004").contains(refused));
    assert!(
        client
            .monitor("goto 499_999")
            .contains("icount 499_999 of 1_000_000")
    );
    drop(client);
    let text = Client::new(&server).monitor("when");
    assert!(!text.contains("branch"), "{text}");
    server.finish();
}

fn hex(text: &str) -> String {
    text.bytes().map(|b| format!("{b:02x}")).collect()
}
