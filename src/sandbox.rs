//! What a command that reads a recording may still do: recordings come from others, and are hostile until shown otherwise.
//!
//! Landlock leaves it the recording's files, for reading, and no new TCP connection; seccomp leaves it the system calls of a program
//! that computes, reads, and talks over what is open already. A fault in a parser, in a device or in translated code then
//! reaches neither the user's files nor another program. What the kernel doesn't know is told, not refused: an old kernel
//! still replays.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetStatus, Scope,
};

use crate::session::say;

/// The newest version of Landlock that is asked for; of an older one what it has is taken.
const LANDLOCK: ABI = ABI::V6;

/// Whether a command that reads a recording confines itself.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct SandboxArguments {
    /// Leave this process all that its user may do, instead of reading the recording and nothing else
    #[arg(long)]
    no_sandbox: bool,
}

/// What is needed besides reading, and must be named before the sandbox is entered.
#[derive(Debug, Default)]
pub struct Needs {
    read: Vec<PathBuf>,
    list: Vec<PathBuf>,
    remove_files: Vec<PathBuf>,
    remove_folders: Vec<PathBuf>,
}

impl Needs {
    /// To read these folders and all that is in them.
    pub fn reading<P: AsRef<Path>>(paths: &[P]) -> Self {
        Self {
            read: paths.iter().map(|path| path.as_ref().to_owned()).collect(),
            ..Self::default()
        }
    }

    /// To remove files in a folder at the end.
    pub fn removing_files(&mut self, folder: &Path) {
        self.remove_files.push(folder.to_owned());
    }

    /// To remove this folder at the end, with the files in it.
    pub fn removing(&mut self, folder: &Path) {
        self.remove_files.push(folder.to_owned());
        self.list.push(folder.to_owned());
        self.remove_folders
            .push(folder.parent().unwrap_or(folder).to_owned());
    }
}

/// Confines this thread, and all threads that it starts, to what is needed, until the process ends. So it is called
/// before the first other thread is started, and before a byte of the recording is read.
///
/// # Errors
/// A folder can't be opened; the kernel knows of sandboxes, but refuses this one.
pub fn enter(arguments: SandboxArguments, needs: &Needs) -> Result<()> {
    if arguments.no_sandbox {
        return Ok(());
    }
    let files = confine_files(needs).context("can't enter the sandbox (--no-sandbox goes without)")?;
    let calls = confine_calls().context("can't enter the sandbox (--no-sandbox goes without)")?;
    if !(files && calls) {
        say("this kernel lacks Landlock or seccomp: the recording is read without a whole sandbox");
    }
    Ok(())
}

/// Landlock: true if the kernel enforces it.
fn confine_files(needs: &Needs) -> Result<bool> {
    let rules = Ruleset::default()
        .handle_access(AccessFs::from_all(LANDLOCK))?
        .handle_access(AccessNet::from_all(LANDLOCK))?
        .scope(Scope::from_all(LANDLOCK))?
        .create()?;
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let rules = allow(rules, &needs.read, read)?;
    let rules = allow(rules, &needs.list, AccessFs::ReadDir.into())?;
    let rules = allow(rules, &needs.remove_files, AccessFs::RemoveFile.into())?;
    let rules = allow(rules, &needs.remove_folders, AccessFs::RemoveDir.into())?;
    Ok(rules.restrict_self()?.ruleset != RulesetStatus::NotEnforced)
}

fn allow(mut rules: RulesetCreated, paths: &[PathBuf], access: BitFlags<AccessFs>) -> Result<RulesetCreated> {
    for path in paths {
        let folder = PathFd::new(path).with_context(|| format!("can't open {}", path.display()))?;
        rules = rules.add_rule(PathBeneath::new(folder, access))?;
    }
    Ok(rules)
}

/// Seccomp: true if the kernel enforces it.
#[cfg(target_arch = "x86_64")]
fn confine_calls() -> Result<bool> {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

    // A call that isn't there is what libraries are written for: they take an older one, or fail.
    let absent = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let filter = SeccompFilter::new(
        calls::allowed()?,
        absent,
        SeccompAction::Allow,
        TargetArch::x86_64,
    )?;
    let program = BpfProgram::try_from(filter)?;
    match seccompiler::apply_filter(&program) {
        Ok(()) => Ok(true),
        Err(seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error)) if unknown(&error) => {
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// The list below is of x86-64's calls, and so is translated code.
#[cfg(not(target_arch = "x86_64"))]
fn confine_calls() -> Result<bool> {
    Ok(false)
}

/// A kernel without seccomp's filters says so in one of these ways.
#[cfg(target_arch = "x86_64")]
fn unknown(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS))
}

#[cfg(target_arch = "x86_64")]
mod calls {
    use std::collections::BTreeMap;

    use anyhow::Result;
    use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

    /// Calls whose arguments don't matter.
    const ANY: &[libc::c_long] = &[
        // What is open already, and (by Landlock) the recording's files.
        libc::SYS_read,
        libc::SYS_readv,
        libc::SYS_pread64,
        libc::SYS_preadv,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_open,
        libc::SYS_openat,
        libc::SYS_close,
        libc::SYS_fstat,
        libc::SYS_stat,
        libc::SYS_lstat,
        libc::SYS_newfstatat,
        libc::SYS_statx,
        libc::SYS_lseek,
        libc::SYS_getdents64,
        libc::SYS_readlink,
        libc::SYS_fcntl,
        libc::SYS_dup,
        libc::SYS_poll,
        libc::SYS_ppoll,
        libc::SYS_unlink,
        libc::SYS_unlinkat,
        libc::SYS_rmdir,
        libc::SYS_getcwd,
        // gdb's connection on a socket that listens already, and signals over a pair of sockets.
        libc::SYS_accept4,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_shutdown,
        libc::SYS_setsockopt,
        libc::SYS_getsockopt,
        libc::SYS_getsockname,
        libc::SYS_getpeername,
        libc::SYS_socketpair,
        // Memory, the code cache among it.
        libc::SYS_mmap,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_mprotect,
        libc::SYS_madvise,
        libc::SYS_brk,
        libc::SYS_memfd_create,
        libc::SYS_ftruncate,
        // Threads.
        libc::SYS_futex,
        libc::SYS_set_robust_list,
        libc::SYS_rseq,
        libc::SYS_gettid,
        libc::SYS_getpid,
        libc::SYS_sched_yield,
        libc::SYS_sched_getaffinity,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sigaltstack,
        libc::SYS_restart_syscall,
        // Time and randomness (of hash tables), for progress and names, never for the guest.
        libc::SYS_clock_gettime,
        libc::SYS_clock_getres,
        libc::SYS_clock_nanosleep,
        libc::SYS_nanosleep,
        libc::SYS_getrandom,
        libc::SYS_getrusage,
        libc::SYS_uname,
    ];

    const CLONE_THREAD: u64 = 0x0001_0000;

    fn condition(argument: u8, operation: SeccompCmpOp, value: u64) -> Result<SeccompCondition> {
        let length = SeccompCmpArgLen::Dword;
        Ok(SeccompCondition::new(argument, length, operation, value)?)
    }

    /// The calls that are left. A call of several rules is allowed by any of them.
    pub fn allowed() -> Result<BTreeMap<i64, Vec<SeccompRule>>> {
        let equal = |argument, value: u64| condition(argument, SeccompCmpOp::Eq, value);
        let mut allowed: BTreeMap<i64, Vec<SeccompRule>> = ANY.iter().map(|call| (*call, vec![])).collect();
        let mut when = |call: libc::c_long, conditions: Vec<SeccompCondition>| -> Result<()> {
            allowed
                .entry(call)
                .or_default()
                .push(SeccompRule::new(conditions)?);
            Ok(())
        };
        // Threads, no processes. (clone3 keeps its flags in memory, where no filter sees them: the C library takes clone then.)
        let thread = SeccompCmpOp::MaskedEq(CLONE_THREAD);
        when(libc::SYS_clone, vec![condition(0, thread, CLONE_THREAD)?])?;
        // Signals to itself: a second Ctrl-C, an abort.
        let own = u64::from(std::process::id());
        when(libc::SYS_tgkill, vec![equal(0, own)?])?;
        when(libc::SYS_kill, vec![equal(0, own)?])?;
        // Limits are asked for, not set.
        when(libc::SYS_prlimit64, vec![equal(0, 0)?, condition_null(2)?])?;
        // Names of threads and of memory.
        when(
            libc::SYS_prctl,
            vec![equal(0, u64::from(libc::PR_SET_NAME.unsigned_abs()))?],
        )?;
        when(
            libc::SYS_prctl,
            vec![equal(0, u64::from(libc::PR_SET_VMA.unsigned_abs()))?],
        )?;
        // Whether output is a terminal and how wide; that a socket doesn't block.
        for request in [libc::TCGETS, libc::TIOCGWINSZ, libc::FIONBIO] {
            when(libc::SYS_ioctl, vec![equal(1, request)?])?;
        }
        Ok(allowed)
    }

    fn condition_null(argument: u8) -> Result<SeccompCondition> {
        Ok(SeccompCondition::new(
            argument,
            SeccompCmpArgLen::Qword,
            SeccompCmpOp::Eq,
            0,
        )?)
    }
}

#[cfg(test)]
mod tests {
    // What must fail is tried with the standard library's own means.
    #![allow(clippy::disallowed_methods)]

    use super::*;
    use std::fs;
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};
    use std::process::Command;

    /// The sandbox is a thread's, so a test can leave it.
    #[test]
    fn only_the_recording_is_left() {
        let place = tempfile::tempdir().unwrap();
        let recording = place.path().join("a.tick");
        fs::create_dir(&recording).unwrap();
        fs::write(recording.join("manifest"), "content").unwrap();
        fs::write(place.path().join("secret"), "secret").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let needs = Needs::reading(&[&recording]);
        let tried = std::thread::spawn(move || {
            enter(SandboxArguments { no_sandbox: false }, &needs).unwrap();
            assert_eq!(fs::read_to_string(recording.join("manifest")).unwrap(), "content");
            assert_eq!(fs::read_dir(&recording).unwrap().count(), 1);
            std::thread::spawn(|| ()).join().unwrap();
            let outside = recording.parent().unwrap();
            let kind = |result: std::io::Result<()>| result.unwrap_err().kind();
            [
                ("read", kind(fs::read(outside.join("secret")).map(drop))),
                ("read the system", kind(fs::read("/etc/passwd").map(drop))),
                ("write", kind(fs::write(recording.join("new"), "x"))),
                ("write over", kind(fs::write(recording.join("manifest"), "x"))),
                ("remove", kind(fs::remove_file(recording.join("manifest")))),
                ("make a folder", kind(fs::create_dir(recording.join("new")))),
                ("connect", kind(TcpStream::connect(address).map(drop))),
                ("run", kind(Command::new("/bin/true").status().map(drop))),
            ]
        });
        for (what, kind) in tried.join().unwrap() {
            let refused = matches!(kind, ErrorKind::PermissionDenied | ErrorKind::Unsupported);
            assert!(refused, "{what}: {kind:?}");
        }
        assert_eq!(fs::read_to_string(place.path().join("secret")).unwrap(), "secret");
    }
}
