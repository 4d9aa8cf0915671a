//! What a service manager learns of a command that it runs: sd_notify(3). Without one nothing happens.

/// Peers can use the command from now on.
pub(crate) fn ready(status: &str) {
    send(&format!("READY=1\nSTATUS={status}"));
}

/// One line about the present state, for `systemctl status`.
pub(crate) fn status(status: &str) {
    send(&format!("STATUS={status}"));
}

/// The command ends.
pub(crate) fn stopping() {
    send("STOPPING=1");
}

#[cfg(unix)]
fn send(state: &str) {
    if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Custom(state)]) {
        tracing::debug!(%error, "cannot notify the service manager");
    }
}

#[cfg(not(unix))]
fn send(_: &str) {}
