//! Unix.

use std::{
    ffi::OsStr,
    fs::{File, Metadata, Permissions},
    io,
    os::{
        fd::AsFd,
        unix::{
            ffi::OsStrExt,
            fs::{DirBuilderExt as _, MetadataExt, PermissionsExt},
        },
    },
    path::Path,
    time::Duration,
};

use cap_std::fs::{Dir, DirBuilder, DirBuilderExt as _, OpenOptions, OpenOptionsExt};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FlockOperation, flock, fstatvfs},
    io::Errno,
    process::{Resource, Rlimit, Signal, getegid, geteuid, getrlimit, setrlimit},
};
use tokio::signal::unix::{SignalKind, signal};

use super::Stop;

/// Error codes of names that the file system does not accept.
pub const NAME_FAULTS: &[i32] = &[Errno::ILSEQ.raw_os_error()];
/// Error codes of a process or system without a free file descriptor.
pub const DESCRIPTOR_FAULTS: &[i32] = &[Errno::MFILE.raw_os_error(), Errno::NFILE.raw_os_error()];

/// A name or path from its bytes.
pub fn os_str(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

/// Permission bits, with setuid, setgid and sticky; `None` if the system has none.
pub fn mode(metadata: &Metadata) -> Option<u32> {
    Some(metadata.mode() & 0o7777)
}

/// Sets all bits that [`mode`] reports.
///
/// # Errors
/// When the system call fails.
pub fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(mode))
}

/// The owner, if that is another user than the one of this process.
pub fn other_owner(metadata: &Metadata) -> Option<u32> {
    Some(metadata.uid()).filter(|&owner| owner != geteuid().as_raw())
}

/// Whether the group of a file is the one of this process.
pub fn has_own_group(metadata: &Metadata) -> bool {
    metadata.gid() == getegid().as_raw()
}

/// Device and inode, and when content or properties last changed: seconds and nanoseconds, which programs cannot set. All
/// zero if the system does not report them.
pub fn inode(metadata: &Metadata) -> ((u64, u64), (i64, i64)) {
    ((metadata.dev(), metadata.ino()), (metadata.ctime(), metadata.ctime_nsec()))
}

/// How many names a file has.
pub fn names(metadata: &Metadata) -> u64 {
    metadata.nlink()
}

/// Bytes that a file occupies on the disk, if the system reports them.
pub fn stored_bytes(metadata: &Metadata) -> Option<u64> {
    Some(512 * metadata.blocks())
}

/// Gives the file to create these permission bits, less the umask.
pub fn create_mode(options: &mut OpenOptions, mode: u32) -> &mut OpenOptions {
    options.mode(mode)
}

/// Creates directories with these permission bits, less the umask.
pub fn directory_builder(mode: u32) -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(mode);
    builder
}

/// Makes a directory that only its owner can enter, with those above it.
///
/// # Errors
/// When a system call fails.
pub fn make_private_directory(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().mode(0o700).recursive(true).create(path)
}

/// Makes a symbolic link.
///
/// # Errors
/// When the name exists, or a system call fails.
pub fn make_link(parent: &Dir, target: &OsStr, name: &Path) -> io::Result<()> {
    parent.symlink_contents(target, name)
}

/// Bytes that can still be written, if the system knows.
pub fn free_bytes(dir: &Dir) -> Option<u64> {
    let there = fstatvfs(dir).ok()?;
    // A file system that does not count has no size.
    (there.f_blocks > 0).then(|| there.f_bavail.saturating_mul(there.f_frsize))
}

/// Makes the names in a directory durable. File systems that do not support this sync names by themselves.
///
/// # Errors
/// When the system call fails.
pub fn sync_directory(directory: &File) -> io::Result<()> {
    match directory.sync_all() {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

/// Locks a file until it is closed; returns whether no other process has it.
pub fn lock(file: &File) -> bool {
    // Without locks in the file system, only this process is known to use it.
    flock(file, FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK)
}

/// Waits until one of the sockets is readable, at most `timeout`.
///
/// # Errors
/// When the call is interrupted or fails.
pub fn wait_readable<S: AsFd>(sockets: &[S], timeout: Duration) -> io::Result<()> {
    let mut fds: Vec<_> = sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
    let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
    poll(&mut fds, Some(&timeout))?;
    Ok(())
}

/// What standard error is.
///
/// # Errors
/// When it is closed.
pub fn stderr_metadata() -> io::Result<Metadata> {
    File::from(io::stderr().as_fd().try_clone_to_owned()?).metadata()
}

/// Returns on a request to terminate this process, or when its terminal or ssh session ends, unless `nohup` has started it.
/// From the call on, these signals do nothing else.
pub fn terminated() -> impl Future<Output = Stop> {
    // Without a handler, a file that reaches the limit of sizes ends the process without a word; with one, the write fails.
    let handled = signal(SignalKind::from_raw(Signal::XFSZ.as_raw()));
    let (terminate, hangup) = (received(SignalKind::terminate()), received(SignalKind::hangup()));
    async move {
        let _handled = handled;
        tokio::select! {
            () = terminate => Stop::Terminate,
            () = hangup => Stop::Interrupt,
        }
    }
}

fn received(kind: SignalKind) -> impl Future<Output = ()> {
    let signals = if kind == SignalKind::hangup() && ignores_hangup() { None } else { signal(kind).ok() };
    async {
        match signals {
            Some(mut signals) => drop(signals.recv().await),
            None => std::future::pending().await,
        }
    }
}

/// A handler would end what `nohup` is to keep. Other systems do not show it.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 << (Signal::HUP.as_raw() - 1) != 0)
}

/// Raises this process's soft limit of open files to the hard one. The usual soft limit, 1024, is below what a tunnel
/// with [`CONNECTIONS_MAX`](crate::tunnel::CONNECTIONS_MAX) connections needs, and some systems set one below what many
/// small files in flight need.
pub fn raise_descriptor_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Without it, fewer files and connections are open at a time.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Replaces standard output by the null device, so that the program behind it reads the end.
///
/// # Errors
/// When a system call fails.
pub fn close_stdout() -> io::Result<()> {
    let null = File::options().write(true).open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdout(&null)?)
}
