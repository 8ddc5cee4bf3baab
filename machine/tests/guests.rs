//! The embedded guests on the whole machine.
#![allow(clippy::unwrap_used, missing_docs)]

use std::num::NonZeroU64;
use std::sync::{Arc, Mutex};

use icount::{Display, Door, DoorError, Effect, End, Icount, Idle, Input, LogPosition, Ready, VirtualTime};
use machine::{Config, FirstStep, HartStart, Machine, Stopped, Stops};
use machine::{Engine, EngineKind};

#[path = "guests/flags.rs"]
mod flags;
#[path = "guests/strings.rs"]
mod strings;

/// A live door without a host: shows the console to the test, types nothing.
#[derive(Clone, Default)]
struct Quiet(Arc<Mutex<Vec<u8>>>);

impl Door for Quiet {
    fn effect(&mut self, _: Icount, _: VirtualTime, _: u8, effect: &Effect) -> Result<(), DoorError> {
        if let Effect::ConsoleOut { byte, .. } = effect {
            self.0.lock().unwrap().push(*byte);
        }
        Ok(())
    }
    fn send(&mut self, _: u8, _: &[u8]) {}
    fn input(&mut self, _: Icount, _: VirtualTime, _: Ready) -> Result<Option<Input>, DoorError> {
        Ok(None)
    }
    fn wants_display(&self, _: Icount, _: VirtualTime) -> bool {
        false
    }
    fn display(&mut self, _: Icount, _: VirtualTime, _: Option<&Display>) {}
    fn next_input(&self) -> Option<(Icount, VirtualTime)> {
        None
    }
    fn idle(&mut self, _: Icount, _: VirtualTime, deadline: Option<VirtualTime>) -> Result<Idle, DoorError> {
        Ok(deadline.map_or(Idle::Forever, Idle::Until))
    }
    fn disk_block(&mut self, _: Icount, _: VirtualTime, _: u8, _: u64) -> Result<Vec<u8>, DoorError> {
        Ok(vec![0; 4096])
    }
    fn inject(&mut self, _: Icount, _: VirtualTime, _: &Input) -> Result<(), DoorError> {
        Ok(())
    }
    fn progress(&mut self, _: Icount, _: VirtualTime, _: bool) -> Result<(), DoorError> {
        Ok(())
    }
    fn position(&self) -> LogPosition {
        LogPosition::default()
    }
    fn seek(&mut self, _: LogPosition) -> Result<(), DoorError> {
        Ok(())
    }
    fn finish(&mut self, _: Icount, _: VirtualTime, _: End) -> Result<(), DoorError> {
        Ok(())
    }
}

fn engine() -> Engine {
    Engine::new(EngineKind::default()).unwrap()
}

fn boot(guest: &firmware::Guest, harts: u8) -> (Machine, Quiet) {
    start(guest.load, guest.image.clone(), harts, None)
}

fn start(entry: u64, image: Vec<u8>, harts: u8, tohost: Option<u64>) -> (Machine, Quiet) {
    let door = Quiet::default();
    let config = Config {
        board: "riscv-virt".into(),
        memory: 64 << 20,
        harts: (0..harts)
            .map(|h| HartStart {
                pc: entry,
                args: [h.into(), 0, 0],
                mode: machine::config::StartMode::Board,
            })
            .collect(),
        ns_per_step: NonZeroU64::MIN,
        slice: 50_000,
        schedule_seed: None,
        seed: 0,
        date_ns: 0,
        drives: Vec::new(),
        tohost,
        semihosting: None,
        cdrom: None,
        testdev: false,
        firmware_files: Vec::new(),
        networks: Vec::new(),
        virtio_console: false,
        on_shutdown: machine::config::OnShutdown::Reset,
    };
    let images = vec![(entry, image)];
    (
        machine::board::build(&config, images, Box::new(door.clone()), engine()).unwrap(),
        door,
    )
}

fn run(guest: &firmware::Guest, harts: u8) -> (String, Stopped, u64) {
    let (mut machine, door) = boot(guest, harts);
    let stopped = machine
        .run(Icount(200_000_000), &Stops::default(), FirstStep::Counts)
        .unwrap();
    let text = String::from_utf8_lossy(&door.0.lock().unwrap()).into_owned();
    (text, stopped, machine.icount().0)
}

#[test]
fn the_demo_finds_its_list_corrupted() {
    let (text, stopped, _) = run(&firmware::demo(), 1);
    assert!(text.contains("corrupt"), "{text}");
    assert!(
        matches!(stopped, Stopped::End(End::PowerOff(code)) if code != 0),
        "{stopped:?}"
    );
}

#[test]
fn the_paging_guest_says_what_it_must() {
    let (text, stopped, _) = run(&firmware::paging(), 1);
    assert!(text.ends_with(firmware::PAGING_CONSOLE), "{text}");
    assert_eq!(stopped, Stopped::End(End::PowerOff(0)));
}

#[test]
fn the_fp_guest_says_what_it_must() {
    let (text, stopped, _) = run(&firmware::fp_mix(), 1);
    assert_eq!(text, firmware::FP_MIX_CONSOLE);
    assert_eq!(stopped, Stopped::End(End::PowerOff(0)));
}

#[test]
fn harts_share_memory() {
    let (text, stopped, _) = run(&firmware::smp_demo(4), 4);
    assert_eq!(stopped, Stopped::End(End::PowerOff(0)), "{text}");
}

#[test]
fn every_store_to_tohost_is_seen() {
    // auipc t0,0; t2 = 0x101 << 48; sd 'a'|t2, 'b'|t2, 1 to t0+0x100; j .
    let code: [u32; 12] = [
        0x0000_0297,
        0x1010_0393,
        0x0303_9393,
        0x0610_0313,
        0x0073_6333,
        0x1062_b023,
        0x0620_0313,
        0x0073_6333,
        0x1062_b023,
        0x0010_0313,
        0x1062_b023,
        0x0000_006f,
    ];
    let image = code.iter().flat_map(|word| word.to_le_bytes()).collect();
    let base = firmware::layout::RAM;
    let (mut machine, door) = start(base, image, 1, Some(base + 0x100));
    let stopped = machine
        .run(Icount(1000), &Stops::default(), FirstStep::Counts)
        .unwrap();
    assert_eq!(stopped, Stopped::End(End::PowerOff(0)));
    assert_eq!(*door.0.lock().unwrap(), b"ab");
    assert_eq!(machine.icount(), Icount(11));
}
