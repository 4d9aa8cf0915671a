//! SIGINT and SIGTERM: noted, so that what was made is removed before the end.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::{SigSet, Signal};

use super::error::NetError;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Notes the signals from now on. To be called before there are other threads. Processes that are started later do not
/// see the signals. The laboratory ends them.
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

/// Looks every so often until something holds, and returns whether it does in time.
///
/// # Errors
/// If a signal has come, or that of `holds`.
pub fn wait_for(
    patience: Duration,
    every: Duration,
    mut holds: impl FnMut() -> Result<bool, NetError>,
) -> Result<bool, NetError> {
    let until = Instant::now() + patience;
    while !holds()? {
        if Instant::now() > until {
            return Ok(false);
        }
        sleep(every)?;
    }
    Ok(true)
}

/// Sleeps, unless a signal comes.
///
/// # Errors
/// If a signal has come.
pub fn sleep(time: Duration) -> Result<(), NetError> {
    let until = Instant::now() + time;
    loop {
        check()?;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(Duration::from_millis(20)));
    }
}
