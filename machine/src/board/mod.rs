//! Boards: what a machine is made of. Each is a file that says which devices there are and how they are connected; all
//! else is the same for every one.
//!
//! | board        | file            | guest |
//! |--------------|-----------------|-------|
//! | `riscv-virt` | `riscv_virt.rs` | RISC-V: QEMU's `virt` map |
//! | `pc`         | `pc.rs`         | x86-64: an i440FX with a PIIX3 |

mod pc;
mod riscv_virt;

use cpu::{Cpu, Layout};
use devices::Device;
use devices::virtio::{Blk, Console, Net, VirtioDevice};
use icount::{Clock, Door, DoorError, Icount, VIRTIO_CONSOLE};
use snapshot::{PageSource, Tree};

use crate::config::{Config, HartStart};
use crate::disk::Disks;
use crate::engine::Engine;
use crate::error::MachineError;
use crate::machine::Machine;
use crate::memory::{Guards, Memory};
use crate::ram::{PAGE, Ram, Region, address_of};
use crate::schedule::Schedule;
use crate::semihosting::Semihosting;
use crate::stops::Watching;
use crate::symbols::ElfMachine;
use crate::system::{MOST_DEVICES, Mapped, System};
use crate::wiring::{Window, Wiring};

/// What is in memory at power-on: address and bytes; all else is zero.
pub type Images = Vec<(u64, Vec<u8>)>;

/// A board.
#[derive(Clone, Copy)]
pub(crate) struct Board {
    /// Its name.
    pub name: &'static str,
    /// The most drives, network cards and virtio consoles together.
    pub cards: usize,
    /// Whether it has a display.
    pub display: bool,
    /// Memory, given its size.
    pub regions: fn(&Config) -> Vec<Region>,
    /// Devices and how they are connected.
    pub devices: fn(&Config) -> Devices,
    /// Number of interrupt lines.
    pub lines: usize,
    /// A hart, by its number.
    pub hart: fn(&Config, u8) -> Box<dyn Cpu>,
    /// Brings a hart to its state at power-on.
    pub start: fn(&mut dyn Cpu, &HartStart),
    /// The slots of its harts.
    pub layout: &'static Layout,
}

/// Devices of a board.
pub(crate) struct Devices {
    pub devices: Vec<Box<dyn Device>>,
    pub wiring: Wiring,
}

impl Devices {
    /// None yet, with pins numbered by `pin`.
    pub fn new(pin: fn(devices::HartPin) -> u32) -> Devices {
        Devices {
            devices: Vec::new(),
            wiring: Wiring {
                memory: Vec::new(),
                ports: Vec::new(),
                messages: Vec::new(),
                pin,
                consoles: Vec::new(),
                virtio_console: None,
                keyboard: None,
                display: None,
                networks: Vec::new(),
                local: None,
                numeric_error: None,
                shadow: None,
            },
        }
    }

    /// Adds a device; its index.
    pub fn add(&mut self, device: Box<dyn Device>) -> usize {
        self.devices.push(device);
        self.devices.len() - 1
    }

    /// Adds a device whose registers, from the first on, are `len` bytes at `base`; its index.
    pub fn add_at(&mut self, base: u64, len: u64, device: Box<dyn Device>) -> usize {
        let device = self.add(device);
        self.wiring.memory.push(Window {
            base,
            len,
            device,
            offset: 0,
        });
        device
    }
}

/// What a virtio card is to the world outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The next network port.
    Network,
    /// The virtio console.
    Console,
    /// Nothing that takes inputs.
    Other,
}

/// The virtio devices that the configuration asks for, in the order of a board's places for them: drives (but for the
/// CD-ROM's), network cards, console. What is added goes behind, so that those before keep their places.
fn cards(config: &Config) -> Vec<(Role, Box<dyn VirtioDevice>)> {
    let mut cards: Vec<(Role, Box<dyn VirtioDevice>)> = Vec::new();
    for (number, drive) in (0u8..).zip(&config.drives) {
        if config.cdrom != Some(number) {
            let serial = format!("tickback{number}");
            let blk = Blk::new(number, drive.sectors, drive.read_only, &serial);
            cards.push((Role::Other, Box::new(blk)));
        }
    }
    for (port, network) in (0u8..).zip(&config.networks) {
        cards.push((Role::Network, Box::new(Net::new(port, network.mac.0))));
    }
    if config.virtio_console {
        cards.push((Role::Console, Box::new(Console::new(VIRTIO_CONSOLE))));
    }
    cards
}

/// All boards.
const BOARDS: [Board; 2] = [riscv_virt::BOARD, pc::BOARD];

/// The board of that name.
pub(crate) fn named(name: &str) -> Result<Board, MachineError> {
    let board = BOARDS.into_iter().find(|board| board.name == name);
    board.ok_or_else(|| {
        let names = BOARDS.map(|board| board.name).join(", ");
        MachineError::Config(format!("there is no machine {name:?}; there are {names}"))
    })
}

/// The most drives, network cards and virtio consoles together that a board takes.
///
/// # Errors
/// There is no such board.
pub fn most_cards(board: &str) -> Result<usize, MachineError> {
    Ok(named(board)?.cards)
}

/// Whether a board has a display.
///
/// # Errors
/// There is no such board.
pub fn has_display(board: &str) -> Result<bool, MachineError> {
    Ok(named(board)?.display)
}

/// How an ELF file says that it is for the processors of a board.
///
/// # Errors
/// There is no such board.
pub fn elf_machine(board: &str) -> Result<ElfMachine, MachineError> {
    Ok(match named(board)?.name {
        // EM_RISCV; compressed instructions, and the soft-float ABI, as kernels have it.
        "riscv-virt" => ElfMachine {
            machine: 243,
            flags: 1,
        },
        // EM_X86_64.
        _ => ElfMachine {
            machine: 62,
            flags: 0,
        },
    })
}

/// Physical address of the first byte of a page of memory.
pub(crate) fn page_address(config: &Config, page: u64) -> Result<Option<u64>, MachineError> {
    Ok(address_of(&(named(&config.board)?.regions)(config), page))
}

/// The images that fill memory with these pages.
pub(crate) fn images(config: &Config, pages: &Tree, source: &dyn PageSource) -> Result<Images, MachineError> {
    let mut images = Images::new();
    pages.for_each::<MachineError>(|key, page| {
        if let Some(addr) = page_address(config, key)? {
            images.push((addr, page.load(source)?.to_vec()));
        }
        Ok(())
    })?;
    Ok(images)
}

/// Builds the machine as it is at power-on.
pub fn build(
    config: &Config,
    images: Images,
    door: Box<dyn Door + Send>,
    engine: Engine,
) -> Result<Machine, MachineError> {
    rebuild(config, Some(images), door, engine)
}

/// Builds the machine of a recording. Without images, what was in memory at power-on is unknown, and a reset an error.
pub(crate) fn rebuild(
    config: &Config,
    images: Option<Images>,
    door: Box<dyn Door + Send>,
    mut engine: Engine,
) -> Result<Machine, MachineError> {
    let known = images.is_some();
    let images = images.unwrap_or_default();
    config.check()?;
    let board = named(&config.board)?;
    let note = engine.bind(board.layout);
    let regions = (board.regions)(config);
    let ram = Ram::new(&regions).map_err(|source| MachineError::Memory {
        bytes: config.memory,
        source,
    })?;
    for (addr, bytes) in &images {
        // An image may go on in the next region (ROM behind RAM); whole pages of it must be somewhere.
        let there = bytes
            .chunks(PAGE as usize)
            .zip(0u64..)
            .all(|(chunk, i)| ram.contains(addr + i * PAGE, chunk.len() as u64));
        if !there {
            return Err(MachineError::Config(format!(
                "{} bytes at {addr:#x} are outside of memory; give the machine more --memory",
                bytes.len(),
            )));
        }
    }
    let Devices { devices, wiring } = (board.devices)(config);
    assert!(devices.len() <= MOST_DEVICES, "{} devices", devices.len());
    let mut memory = Memory::new(ram);
    if let Some(place) = wiring.shadow {
        memory.place_shadow(place);
    }
    let window = wiring.local.map(|local| local.window);
    let devices = devices.into_iter().enumerate();
    let devices = devices.map(|(index, device)| Mapped {
        base: wiring
            .memory
            .iter()
            .chain(&wiring.ports)
            .find(|w| w.device == index)
            .map_or(0, |w| w.base),
        device: Some(device),
    });
    let mut sys = System {
        memory,
        devices: devices.collect(),
        wiring,
        lines: vec![0; board.lines],
        acting: 0,
        local_windows: vec![window; config.harts.len()],
        protections: vec![Vec::new(); config.harts.len()],
        alike: vec![0; config.harts.len()],
        messages: Default::default(),
        pins: Vec::new(),
        clock: Clock::new(config.ns_per_step),
        at: Icount(0),
        current: 0,
        door,
        failed: None,
        untold: Vec::new(),
        disks: Disks::new(config.drives.clone()),
        power: None,
        device_deadline: None,
        seen_deadline: None,
        space: 0,
        space_key: None,
        leave: false,
        interrupt: std::sync::Arc::default(),
        called_off: false,
        shut_down: false,
        on_shutdown: config.on_shutdown,
        notes: note.into_iter().collect(),
        left: 0,
        more_steps: 0,
        end_slice: false,
        torn: false,
        trap: None,
        watching: Watching::default(),
        dma_writes: Vec::new(),
        tohost: config.tohost,
        semihosting: config.semihosting.clone().map(|command_line| Semihosting {
            command_line,
            date_ns: config.date_ns,
        }),
        straddlers: Default::default(),
        walks: 0,
    };
    load(&mut sys, &images);
    if let Some(page) = config.tohost.and_then(|word| sys.memory.ram().page_of(word)) {
        sys.memory.guard(page, Guards::HTIF);
    }
    let mut harts: Vec<Box<dyn Cpu>> = (0..config.harts.len() as u8)
        .map(|id| (board.hart)(config, id))
        .collect();
    start(board, config, &mut harts);
    let schedule = Schedule::new(config.slice, config.schedule_seed);
    let config = config.clone();
    let reset = move |sys: &mut System, harts: &mut [Box<dyn Cpu>]| {
        if !known {
            sys.failed.get_or_insert(DoorError::Refused {
                door: "cut recording's",
                what: "reset the machine: what was in memory at power-on is not in the recording",
            });
            return;
        }
        for index in 0..sys.devices.len() {
            sys.with_device(index, |d, cx| d.reset(cx));
        }
        sys.after_device();
        sys.memory.zero();
        load(sys, &images);
        start(board, &config, harts);
        sys.set_protections(harts);
    };
    Ok(Machine::new(harts, sys, engine, schedule, Box::new(reset)))
}

fn load(sys: &mut System, images: &Images) {
    for (addr, bytes) in images {
        for (chunk, i) in bytes.chunks(PAGE as usize).zip(0u64..) {
            sys.memory.write_bytes(addr + i * PAGE, chunk);
        }
    }
}

fn start(board: Board, config: &Config, harts: &mut [Box<dyn Cpu>]) {
    for (cpu, start) in harts.iter_mut().zip(&config.harts) {
        (board.start)(&mut **cpu, start);
    }
}

/// Spreads the user's seed over the bytes that an entropy source starts from.
pub fn seed_bytes(seed: u64) -> [u8; 32] {
    *blake3::hash(&seed.to_le_bytes()).as_bytes()
}
