//! What is run: a machine's configuration, what is in its memory, and what a user types.

use std::num::NonZeroU64;
use std::sync::Arc;

use anyhow::Result;
use firmware::Guest;
use icount::Door;
use machine::board::Images;
use machine::boot::{Bios, Boot, prepare};
use machine::host::{ClockMode, Console, ConsoleScript, Control, Drives, LiveDoor};
use machine::{Config, HartStart, Watch};

/// A guest with all that decides what it computes.
///
/// What is typed comes from a console script: its bytes are due at virtual times that follow from the guest alone, so
/// two live runs of a subject have the same inputs at the same positions, recorded or not.
#[derive(Clone, Debug)]
pub struct Subject {
    /// For messages.
    pub name: String,
    /// The machine.
    pub config: Config,
    /// RAM at power-on.
    pub images: Images,
    /// The console script; empty if nothing is typed.
    pub script: String,
    /// Virtual addresses that are executed often.
    pub hot: Vec<u64>,
    /// Memory that is read and written.
    pub watches: Vec<Watch>,
    /// What is on the drives of the configuration.
    pub drives: Arc<Drives>,
}

impl Subject {
    /// A bare-metal guest. `hot` and `watched` name symbols of it.
    #[must_use]
    pub fn of(name: &str, guest: &Guest, harts: u8, hot: &[&str], watched: &[&str]) -> Subject {
        let config = Config {
            board: "riscv-virt".into(),
            memory: 8 << 20,
            harts: (0..harts)
                .map(|h| HartStart {
                    pc: guest.entry,
                    args: [h.into(), 0, 0],
                    mode: machine::config::StartMode::Board,
                })
                .collect(),
            ns_per_step: NonZeroU64::MIN,
            slice: 5_000,
            schedule_seed: None,
            seed: 0,
            date_ns: 0,
            drives: Vec::new(),
            tohost: None,
            semihosting: None,
            cdrom: None,
            testdev: false,
            firmware_files: Vec::new(),
            networks: Vec::new(),
            virtio_console: false,
            on_shutdown: machine::config::OnShutdown::Reset,
        };
        let symbol = |name: &&str| guest.symbol(name);
        let watch = |addr| Watch {
            addr,
            len: 8,
            read: true,
            write: true,
        };
        Subject {
            name: name.into(),
            config,
            images: vec![(guest.load, guest.image.clone())],
            script: String::new(),
            hot: hot.iter().filter_map(symbol).collect(),
            watches: watched.iter().filter_map(symbol).map(watch).collect(),
            drives: Arc::default(),
        }
    }

    /// What `boot` starts, with this console script and what is on its drives.
    ///
    /// # Errors
    /// It can't be placed.
    pub fn booted(name: &str, boot: &Boot, script: &str, drives: Drives) -> Result<Subject> {
        let (config, images) = prepare(boot)?;
        Ok(Subject {
            name: name.into(),
            config,
            images,
            script: script.into(),
            hot: Vec::new(),
            watches: Vec::new(),
            drives: Arc::new(drives),
        })
    }

    /// The demo on the PC.
    ///
    /// # Errors
    /// It can't be placed.
    pub fn x86_demo() -> Result<Subject> {
        let demo = firmware::x86_demo();
        let boot = Boot {
            board: "pc".into(),
            memory: 8 << 20,
            bios: Bios::None,
            kernel: Some(demo.to_elf()),
            slice: 5_000,
            ..Boot::default()
        };
        let (config, images) = prepare(&boot)?;
        let names = ["list_remove", "trap", "work"];
        let mut subject = Subject::of("x86_demo", &demo.guest, 1, &names, &["list_head", "ticks"]);
        subject.config = config;
        subject.images = images;
        Ok(subject)
    }

    /// With lengths of slices that this seed varies.
    #[must_use]
    pub fn scheduled(mut self, seed: u64) -> Subject {
        self.config.schedule_seed = Some(seed);
        self.name = format!("{} (schedule {seed})", self.name);
        self
    }

    /// A live door, shown to nobody, through which the script types.
    #[must_use]
    pub fn door(&self) -> Box<dyn Door + Send> {
        let door = LiveDoor::new(Control::new(), Console::none())
            .drives(Arc::clone(&self.drives))
            .clock(ClockMode::Warp, self.config.ns_per_step);
        match ConsoleScript::parse(&self.script) {
            Ok(script) if !self.script.is_empty() => Box::new(door.script(script)),
            _ => Box::new(door),
        }
    }
}

/// The embedded guests.
///
/// # Errors
/// One can't be placed.
pub fn embedded() -> Result<Vec<Subject>> {
    let mut echo = Subject::of(
        "echo",
        &crate::echo::echo(),
        1,
        &["scramble", "received"],
        &["ring", "ticks"],
    );
    echo.script =
        "wait ready\nsend Hello, World: \\n\nwait \\n\nsend the brown fox jumps over 13 LAZY dogs\\n\n\
                   wait lazy\nsend 0123456789abcdefghijklmnopq\n"
            .into();
    Ok(vec![
        Subject::of(
            "demo",
            &firmware::demo(),
            1,
            &["list_remove", "trap", "work"],
            &["list_head", "ticks"],
        ),
        Subject::x86_demo()?,
        smp(),
        Subject::of("paging", &firmware::paging(), 1, &[], &[]),
        Subject::of("fp_mix", &firmware::fp_mix(), 1, &[], &[]),
        echo,
    ])
}

/// Four harts that lock, count and pass a token.
#[must_use]
pub fn smp() -> Subject {
    Subject::of(
        "smp_demo",
        &firmware::smp_demo(4),
        4,
        &["trap", "puts"],
        &["counter_amo", "tokens"],
    )
}
