//! File descriptors: one for each open file and each TCP connection.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises this process's soft limit of open files to the hard one. The usual soft limit, 1024, is below what a tunnel
/// with [`CONNECTIONS_MAX`](crate::tunnel::CONNECTIONS_MAX) connections needs, and some systems set one below what many
/// small files in flight need.
pub fn raise() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Without it, fewer files and connections are open at a time.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
