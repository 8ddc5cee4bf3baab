//! The server: waits for gdb, serves it, and between two debuggers lets a live machine run on.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::thread;

use gdbstub::conn::Connection;
use gdbstub::stub::state_machine::GdbStubStateMachine;
use gdbstub::stub::{DisconnectReason, GdbStubBuilder, GdbStubError};
use machine::icount::Icount;
use machine::{FirstStep, Forward, History, Stops, Timeline, TimelineError};

use crate::console::Console;
use crate::error::GdbError;
use crate::inbox::{Inbox, Next};
use crate::listener::Listener;
use crate::numbers::grouped;
use crate::target::{Never, Target};
use crate::travel::interruptible;
use crate::wire::{CTRL_C, Stream, Wire};

/// Bytes of the largest packet: gdb reads memory in pieces of half of it.
const PACKET: usize = 0x4000;

/// What the server needs from whoever runs it.
pub struct Options<'a> {
    /// Host time in ns, from any origin: for reports of progress about once a second.
    pub host_time: Box<dyn FnMut() -> u64 + Send>,
    /// Asked about ten times a second, and whenever a run was interrupted: whether to end. Who wants a quick end
    /// sets the machine's interrupt flag too.
    pub ending: Box<dyn FnMut() -> bool + 'a>,
    /// Takes a line for the user at the terminal.
    pub say: Box<dyn FnMut(&str) + 'a>,
    /// Where the user finds [`SCRIPT`](crate::SCRIPT); gdb's console tells how to source it.
    pub script: Option<PathBuf>,
}

/// Why the server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By gdb's `kill`.
    Killed,
    /// [`Options::ending`] said so.
    Asked,
    /// The guest of a live recording, which ran on without a debugger, has ended.
    Guest,
}

/// Serves gdb until it kills the machine, or the owner ends it. Detaching leaves the server listening. A live machine
/// stands still until gdb attaches first; when gdb detaches it goes on from the live end, wherever gdb left it.
///
/// # Errors
/// A live machine that ran without a debugger failed. With a debugger attached, errors are its user's to see.
pub fn serve(
    timeline: &mut Timeline<History>,
    listener: &Listener,
    mut options: Options<'_>,
) -> Result<Ended, GdbError> {
    let inbox = Inbox::new(timeline.machine().machine().interrupt_flag());
    let console = Console::default();
    let reports = console.clone();
    let mut host_time = std::mem::replace(&mut options.host_time, Box::new(|| 0));
    timeline.on_progress(move |progress| reports.progress(progress, host_time()));
    let ended = thread::scope(|scope| {
        let acceptor = scope.spawn(|| inbox.accept(|| listener.accept()));
        let mut server = Server {
            timeline,
            inbox: &inbox,
            console,
            options,
        };
        let ended = server.serve();
        inbox.finish();
        // It only ever waits a moment.
        let _ = acceptor.join();
        ended
    });
    timeline.on_progress(|_| {});
    ended
}

struct Server<'a, 'o> {
    timeline: &'a mut Timeline<History>,
    inbox: &'a Inbox,
    console: Console,
    options: Options<'o>,
}

impl Server<'_, '_> {
    fn serve(&mut self) -> Result<Ended, GdbError> {
        let mut attached = false;
        loop {
            self.inbox.clear();
            if (self.options.ending)() {
                return Ok(Ended::Asked);
            }
            if let Some(stream) = self.inbox.arrival() {
                attached = true;
                match self.session(stream) {
                    Some(Left::Killed) => return Ok(Ended::Killed),
                    Some(Left::Asked) => return Ok(Ended::Asked),
                    Some(Left::Detached) | None => {}
                }
            } else if attached && self.timeline.machine().is_live() {
                if self.run_free()?.is_break() {
                    return Ok(Ended::Guest);
                }
            } else {
                self.inbox.pause();
            }
        }
    }

    /// Lets a live machine run on, until it ends or something happens here.
    fn run_free(&mut self) -> Result<ControlFlow<()>, GdbError> {
        let branch = self.timeline.machine().branched_at();
        self.timeline
            .machine_mut()
            .go_live()
            .map_err(TimelineError::Machine)?;
        if let Some(at) = branch {
            self.timeline.forget_from(at);
        }
        self.inbox.begin_run();
        let run = self
            .timeline
            .forward_continue(&Stops::default(), FirstStep::Counts, Icount::MAX);
        self.inbox.end_run();
        Ok(match interruptible(run, Forward::Interrupted)? {
            Forward::End | Forward::Limit => ControlFlow::Break(()),
            Forward::Hit { .. } | Forward::Interrupted => ControlFlow::Continue(()),
        })
    }

    /// Serves one gdb. `None`: the connection was unusable from the start.
    fn session(&mut self, stream: Stream) -> Option<Left> {
        let (reading, writing) = (stream.try_clone().ok()?, stream.try_clone().ok()?);
        let text = stream.try_clone().ok()?;
        self.inbox.begin_session();
        self.console.attach(Some(text));
        if let Some(from) = self.timeline.machine().branched_at() {
            self.console.print(&format!(
                "tickback: this is a branch that left the recording at {}, where a debugger wrote; going back before leaves it\n",
                grouped(from.0)
            ));
        }
        if let Some(script) = &self.options.script {
            let script = script.display();
            self.console.print(&format!(
                "tickback: tb-goto, tb-back, tb-last-write and others: source {script}\n"
            ));
        }
        self.console
            .print("tickback: monitor help lists what gdb has no commands for\n");
        (self.options.say)("gdb is attached");
        let Server {
            timeline,
            inbox,
            console,
            options,
        } = self;
        let inbox: &Inbox = inbox;
        let left = thread::scope(|scope| {
            let reader = scope.spawn(|| inbox.read(reading));
            let mut target = Target::new(timeline, inbox, console.clone());
            let left = talk(&mut target, Wire::new(writing), options);
            inbox.close();
            stream.shutdown();
            // Its stream is shut down, so it comes back.
            let _ = reader.join();
            left
        });
        self.console.attach(None);
        match left {
            Ok(Some(left)) => {
                if left == Left::Detached {
                    (self.options.say)("gdb has detached");
                }
                Some(left)
            }
            Ok(None) => {
                (self.options.say)("somebody else than gdb connected, and was sent away");
                None
            }
            Err(error) => {
                (self.options.say)(&format!("gdb's connection was given up: {error}"));
                Some(Left::Detached)
            }
        }
    }
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Detached,
    Killed,
    Asked,
}

type Broken = GdbStubError<Never, std::io::Error>;

/// One session. `None`: whoever connected doesn't speak gdb's protocol.
fn talk(target: &mut Target<'_>, wire: Wire, options: &mut Options<'_>) -> Result<Option<Left>, Broken> {
    let Ok(stub) = GdbStubBuilder::new(wire).packet_buffer_size(PACKET).build() else {
        return Ok(None);
    };
    let mut stub = stub.run_state_machine(target)?;
    let mut first = true;
    let mut running = false;
    loop {
        stub = match stub {
            GdbStubStateMachine::Idle(mut idle) => {
                running = false;
                if idle.borrow_conn().flush().is_err() {
                    return Ok(Some(Left::Detached));
                }
                match target.inbox.next() {
                    // A web page that was made to send here begins with a letter.
                    Next::Byte(byte) if first && !matches!(byte, b'$' | CTRL_C) => {
                        return Ok(None);
                    }
                    Next::Byte(byte) => {
                        first = false;
                        target.sees(byte);
                        idle.incoming_data(target, byte)?
                    }
                    Next::Closed => return Ok(Some(Left::Detached)),
                    Next::Nothing if (options.ending)() => return Ok(Some(Left::Asked)),
                    Next::Nothing => idle.into(),
                }
            }
            // One that comes while the machine stands is late: what it was to interrupt has ended.
            GdbStubStateMachine::CtrlCInterrupt(interrupt) => {
                let reason = running.then(|| target.interrupted());
                interrupt.interrupt_handled(target, reason)?
            }
            GdbStubStateMachine::Running(mut run) => {
                running = true;
                if run.borrow_conn().flush().is_err() {
                    return Ok(Some(Left::Detached));
                }
                if let Some(byte) = target.inbox.try_next() {
                    target.sees(byte);
                    run.incoming_data(target, byte)?
                } else if target.inbox.is_closed() {
                    return Ok(Some(Left::Detached));
                } else {
                    target.inbox.clear();
                    if (options.ending)() {
                        return Ok(Some(Left::Asked));
                    }
                    let reason = match target.action.take() {
                        Some(action) => target.travel(action),
                        // Interrupted by nobody who is still there to be asked.
                        None => Some(target.interrupted()),
                    };
                    match reason {
                        Some(reason) => {
                            let registers = target.stop_registers(&reason);
                            let mut values = registers.iter().map(|(n, value)| (*n, value.as_slice()));
                            run.report_stop_with_regs(target, reason, &mut values)?
                        }
                        None => run.into(),
                    }
                }
            }
            GdbStubStateMachine::Disconnected(mut end) => {
                let reason = end.get_reason();
                let wire = end.borrow_conn();
                if reason == DisconnectReason::Kill {
                    // gdb waits for it, and the stub thinks that it doesn't. It doesn't matter whether it comes through.
                    let _ = wire.write_all(b"$OK#9a");
                }
                let _ = wire.flush();
                return Ok(Some(match reason {
                    DisconnectReason::Kill => Left::Killed,
                    DisconnectReason::Disconnect
                    | DisconnectReason::TargetExited(_)
                    | DisconnectReason::TargetTerminated(_) => Left::Detached,
                }));
            }
        };
    }
}
