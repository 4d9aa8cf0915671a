//! What a service manager learns of a command that it runs: sd_notify(3). Without one nothing happens.

use sd_notify::NotifyState;

/// Peers can use the command from now on.
pub(crate) fn ready(status: &str) {
    send(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// One line about the present state, for `systemctl status`.
pub(crate) fn status(status: &str) {
    send(&[NotifyState::Status(status)]);
}

/// The command ends.
pub(crate) fn stopping() {
    send(&[NotifyState::Stopping]);
}

fn send(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "cannot notify the service manager");
    }
}
