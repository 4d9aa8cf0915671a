//! File descriptors: one for each TCP connection.

/// Raises this process's limit of open files as far as the system lets it, because the usual one, 1024, is below
/// [`super::CONNECTIONS_MAX`] connections and the sockets besides.
pub(super) fn raise() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        // Without it the tunnel serves fewer connections.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}
