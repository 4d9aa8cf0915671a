//! One qlog file per connection in a directory (docs/OBSERVABILITY.md).

use std::{
    env,
    fs::{self, File},
    io::{self, BufWriter},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::SystemTime,
};

use rc3_core::Side;

pub use rc3_core::Qlog;

/// The environment variable that names the directory.
const VARIABLE: &str = "QLOGDIR";

/// Logs each connection to its own file in `directory`, which is created if needed. File names: the time in
/// milliseconds, the process, a number, `client` or `server`, and `.sqlog`.
///
/// If a file cannot be created, the connection continues without it, and a warning is logged. The files are written
/// while the endpoint works: use them for debugging, not in production. A process that is killed takes the last 8 KiB of
/// each with it.
///
/// ```
/// use rc3_net::{TransportConfig, qlog};
/// # let parent = tempfile::tempdir()?;
/// # let path = parent.path().join("qlog");
///
/// let mut transport = TransportConfig::default();
/// transport.qlog(Some(qlog::directory(&path)?));
/// assert!(path.is_dir(), "each connection now adds a file");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// An [`io::Error`] of the system if the directory cannot be created.
pub fn directory(directory: impl AsRef<Path>) -> io::Result<Qlog> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let directory = directory.as_ref().to_path_buf();
    fs::create_dir_all(&directory)?;
    Ok(Qlog::new(move |side, remote| {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let name = format!(
            "{}-{}-{}-{}.sqlog",
            since_epoch.unwrap_or_default().as_millis(),
            process::id(),
            NUMBER.fetch_add(1, Relaxed),
            if side == Side::Client { "client" } else { "server" },
        );
        let path = directory.join(name);
        match File::create_new(&path) {
            Ok(file) => Some(Box::new(BufWriter::new(file))),
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), %remote, "no qlog");
                None
            }
        }
    }))
}

/// The directory in the environment variable `QLOGDIR`, if set.
pub fn directory_from_env() -> Option<PathBuf> {
    env::var_os(VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from)
}
