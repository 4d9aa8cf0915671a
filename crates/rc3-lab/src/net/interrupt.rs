//! SIGINT and SIGTERM: noted, so that what was made is removed before the end.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use nix::sys::signal::{SigSet, Signal};

use super::error::NetError;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Notes the signals from now on. To be called before there are other threads. Processes that are started later do not
/// see the signals. The laboratory ends them.
///
/// # Errors
/// If the system refuses.
pub fn watch() -> Result<(), NetError> {
    let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
    signals.thread_block().map_err(std::io::Error::from)?;
    thread::spawn(move || {
        while signals.wait().is_ok() {
            INTERRUPTED.store(true, Ordering::Relaxed);
        }
    });
    Ok(())
}

/// Whether to go on.
///
/// # Errors
/// If a signal has come.
pub fn check() -> Result<(), NetError> {
    if INTERRUPTED.load(Ordering::Relaxed) { Err(NetError::Interrupted) } else { Ok(()) }
}

/// Sleeps, unless a signal comes.
///
/// # Errors
/// If a signal has come.
pub fn sleep(time: std::time::Duration) -> Result<(), NetError> {
    let until = std::time::Instant::now() + time;
    loop {
        check()?;
        let left = until.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(std::time::Duration::from_millis(20)));
    }
}
