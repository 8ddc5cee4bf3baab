//! Ways to run a machine through positions, and what was seen at each: law 1 says that it is the same.

use std::fmt;
use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use icount::Icount;
use machine::icount::End;
use machine::{
    AddressKind, Config, Engine, EngineKind, FirstStep, History, Machine, Passes, Stopped, Stops, board,
};
use snapshot::{PageRef, Root, Tree, whole_root};

use crate::Random;
use crate::subject::Subject;

/// Hits after which a stretch goes on without stopping, so that a hot address takes no minutes.
const MOST_HITS: usize = 64;
/// Steps made one by one behind each position when a run is cut.
const SINGLE_STEPS: u64 = 24;

/// What executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum With {
    /// The JIT with all passes.
    Jit,
    /// The JIT without passes.
    PlainJit,
    /// The interpreter.
    Interp,
}

impl With {
    /// A new engine.
    ///
    /// # Errors
    /// The host lacks what the JIT needs.
    pub fn engine(self) -> Result<Engine> {
        let kind = match self {
            With::Jit | With::PlainJit => EngineKind::Jit,
            With::Interp => EngineKind::Interp,
        };
        let mut engine = Engine::new(kind)?;
        if self == With::PlainJit {
            engine.set_passes(Passes::none());
        }
        Ok(engine)
    }
}

/// How a run goes from one position to the next.
#[derive(Clone, Debug)]
pub enum How {
    /// In one go.
    Straight,
    /// In pieces of random lengths, and of single steps behind each position.
    Cut(u64),
    /// Looking for conditions without stopping, as a search backwards does.
    Scan(Stops),
    /// Stopping at conditions and going on.
    Stop(Stops),
    /// With all translated code thrown away at each position.
    Flush,
}

/// A machine under way.
pub enum Run {
    /// Live and not recorded.
    Live(Box<Machine>),
    /// Live and recorded.
    Recording(Box<History>),
    /// Replayed from a recording.
    Replaying(Box<History>),
}

/// The state at a position.
#[derive(Clone, PartialEq, Eq)]
pub struct Seen {
    /// The position.
    pub at: Icount,
    /// The state root.
    pub root: Root,
    /// The root of memory alone.
    pub memory: Root,
    /// Everything but memory.
    pub state: Arc<Vec<u8>>,
}

/// Where two ways differ.
#[derive(Clone, PartialEq, Eq)]
pub struct Difference {
    /// One.
    pub one: Seen,
    /// The other.
    pub other: Seen,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (one, other) = (&self.one, &self.other);
        write!(f, "at {} and {}: memory ", one.at, other.at)?;
        f.write_str(if one.memory == other.memory {
            "is equal"
        } else {
            "differs"
        })?;
        let pairs = one.state.iter().zip(other.state.iter());
        let places: Vec<usize> = pairs
            .enumerate()
            .filter(|(_, (a, b))| a != b)
            .map(|(i, _)| i)
            .collect();
        match places.first() {
            Some(first) => {
                let near = |bytes: &[u8]| format!("{:02x?}", &bytes[*first..bytes.len().min(first + 16)]);
                let (one, other) = (&one.state, &other.state);
                write!(
                    f,
                    "; of {} and {} bytes of state {} differ, from byte {first}: {} and {}",
                    one.len(),
                    other.len(),
                    places.len(),
                    near(one),
                    near(other)
                )
            }
            None => write!(f, "; all bytes of state are equal"),
        }
    }
}

impl fmt::Debug for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The first difference of two walks through the same positions.
///
/// # Errors
/// The difference, or that one is shorter.
pub fn compare(one: &[Seen], other: &[Seen]) -> Result<()> {
    ensure!(
        one.len() == other.len(),
        "{} and {} positions",
        one.len(),
        other.len()
    );
    match one.iter().zip(other).find(|(a, b)| a != b) {
        Some((a, b)) => bail!(
            "{}",
            Difference {
                one: a.clone(),
                other: b.clone()
            }
        ),
        None => Ok(()),
    }
}

impl Run {
    /// A live run from power-on.
    ///
    /// # Errors
    /// The machine can't be built.
    pub fn live(subject: &Subject, with: With) -> Result<Run> {
        let machine = board::build(
            &subject.config,
            subject.images.clone(),
            subject.door(),
            with.engine()?,
        )?;
        Ok(Run::Live(Box::new(machine)))
    }

    /// The machine.
    pub fn machine(&mut self) -> &mut Machine {
        match self {
            Run::Live(machine) => machine,
            Run::Recording(history) | Run::Replaying(history) => history.machine_mut(),
        }
    }

    fn run(&mut self, until: Icount, stops: &Stops, first: FirstStep) -> Result<Stopped> {
        let Run::Recording(history) = self else {
            return Ok(self.machine().run(until, stops, first)?);
        };
        let mut first = first;
        loop {
            let before = history.machine().icount();
            let stopped = history.run_live(until, stops, first)?;
            let at = history.machine().icount();
            if stopped != Stopped::Reached || at >= until {
                return Ok(stopped);
            }
            if at > before {
                first = FirstStep::Counts;
            }
        }
    }

    /// The state here.
    ///
    /// # Errors
    /// It can't be saved.
    pub fn see(&mut self) -> Result<Seen> {
        let snapshot = self.machine().save()?;
        Ok(Seen {
            at: snapshot.at,
            root: snapshot.root(),
            memory: snapshot.tree.root(),
            state: snapshot.state,
        })
    }

    /// The root made from all of memory, whatever was noted as written.
    ///
    /// # Errors
    /// Memory can't be read.
    pub fn whole_root(&mut self, config: &Config) -> Result<Root> {
        let pc = config.board == "pc";
        let base = if pc { 0 } else { firmware::layout::RAM };
        let mut tree = Tree::new();
        for page in 0..config.memory / 4096 {
            // The display's window: the RAM below it is nobody's.
            if pc && (0xa0..0xc0).contains(&page) {
                continue;
            }
            let mut bytes = Arc::new([0; 4096]);
            let addr = base + page * 4096;
            let Some(out) = Arc::get_mut(&mut bytes) else {
                bail!("a page is shared")
            };
            ensure!(
                self.machine().debug_read(AddressKind::Physical, addr, out),
                "page {addr:#x}"
            );
            // Pages are numbered through all of memory, without the hole.
            let number = if pc && page >= 0xc0 { page - 0x20 } else { page };
            tree.set(number, PageRef::of(bytes))?;
        }
        Ok(whole_root(tree.root(), &self.machine().save_state()?))
    }

    /// Runs to the end of the guest, at most to `limit`.
    ///
    /// # Errors
    /// The machine's.
    pub fn finish(&mut self, limit: Icount) -> Result<(Icount, Option<End>)> {
        let stopped = self.run(limit, &Stops::default(), FirstStep::Counts)?;
        let end = match stopped {
            Stopped::End(end) => Some(end),
            Stopped::Reached => None,
            other => bail!("stopped by {other:?}"),
        };
        Ok((self.machine().icount(), end))
    }

    /// Runs through ascending positions.
    ///
    /// # Errors
    /// The machine's, or the run ends before.
    pub fn walk(&mut self, how: &How, places: &[u64]) -> Result<Vec<Seen>> {
        self.walk_and(how, places, |_, _| Ok(()))
    }

    /// As [`walk`](Self::walk), with something done at each position.
    ///
    /// # Errors
    /// As [`walk`](Self::walk), and what is done there.
    pub fn walk_and(
        &mut self,
        how: &How,
        places: &[u64],
        mut there: impl FnMut(&mut Run, &Seen) -> Result<()>,
    ) -> Result<Vec<Seen>> {
        let mut seen = Vec::with_capacity(places.len());
        let none = Stops::default();
        let mut random = Random(match how {
            How::Cut(seed) => *seed,
            _ => 0,
        });
        for (i, place) in places.iter().enumerate() {
            let place = Icount(*place);
            match how {
                How::Straight => self.piece(place, &none)?,
                How::Cut(_) => self.pieces(place, &mut random)?,
                How::Scan(stops) => {
                    let (Run::Live(_) | Run::Replaying(_)) = self else {
                        bail!("a recording doesn't scan")
                    };
                    self.machine().scan(place, stops)?;
                }
                How::Stop(stops) => self.piece(place, stops)?,
                How::Flush => {
                    // An address asked about for the first time makes everything be translated anew.
                    let stops = Stops {
                        breakpoints: vec![0xffff_ffff_ffff_0000 | (i as u64 * 2) & 0xfff],
                        ..Stops::default()
                    };
                    self.piece(place, &stops)?;
                }
            }
            let at = self.machine().icount();
            ensure!(at == place, "the run came to {at} on its way to {place}");
            let here = self.see()?;
            there(self, &here)?;
            seen.push(here);
        }
        Ok(seen)
    }

    fn piece(&mut self, until: Icount, stops: &Stops) -> Result<()> {
        let mut first = FirstStep::Counts;
        for _ in 0..MOST_HITS {
            match self.run(until, stops, first)? {
                Stopped::Hit(_) => first = FirstStep::Skipped,
                Stopped::Reached => return Ok(()),
                other => bail!("{other:?} at {} on the way to {until}", self.machine().icount()),
            }
        }
        let stopped = self.run(until, &Stops::default(), FirstStep::Counts)?;
        ensure!(stopped == Stopped::Reached, "{stopped:?} on the way to {until}");
        Ok(())
    }

    fn pieces(&mut self, until: Icount, random: &mut Random) -> Result<()> {
        let none = Stops::default();
        let start = self.machine().icount().0;
        for at in start + 1..=(start + SINGLE_STEPS).min(until.0) {
            self.piece(Icount(at), &none)?;
        }
        while self.machine().icount() < until {
            let scale = 1 << random.below(17);
            let next = self.machine().icount().0 + 1 + random.below(scale);
            self.piece(Icount(next).min(until), &none)?;
        }
        Ok(())
    }
}
