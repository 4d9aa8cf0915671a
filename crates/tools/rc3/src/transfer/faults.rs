//! What an error of the receiving system means: of one entry, which is then left out, or of all that follow.

use std::io;

use super::message::{Fault, Skip, reason};

/// The fault of a file that met this error.
pub(super) fn fault(error: &io::Error) -> Fault {
    if error.kind() == io::ErrorKind::AlreadyExists {
        Fault::Exists
    } else if is_name_fault(error) {
        Fault::Name
    } else if is_general(error) {
        Fault::Storage
    } else {
        Fault::Refused
    }
}

/// Why an entry is not created; `None` if the transfer ends.
pub(super) fn skip(error: &io::Error) -> Option<Skip> {
    match fault(error) {
        Fault::Storage => None,
        Fault::Exists => Some(Skip::Conflict),
        Fault::Name => Some(Skip::Name),
        _ => Some(Skip::Refused(reason(error))),
    }
}

/// Whether the file system does not accept a name.
pub(super) fn is_name_fault(error: &io::Error) -> bool {
    #[cfg(unix)]
    if error.raw_os_error() == Some(rustix::io::Errno::ILSEQ.raw_os_error()) {
        return true;
    }
    matches!(error.kind(), io::ErrorKind::InvalidFilename | io::ErrorKind::InvalidInput)
}

/// Whether every other entry would meet the error too: no space, no descriptors, or the end of this program.
fn is_general(error: &io::Error) -> bool {
    #[cfg(unix)]
    if let Some(code) = error.raw_os_error() {
        use rustix::io::Errno;
        if [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error).contains(&code) {
            return true;
        }
    }
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::OutOfMemory
            // Of a closed destination.
            | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_one_entry_are_told_from_those_of_all() {
        use io::ErrorKind::*;
        for (kind, expected) in [
            (AlreadyExists, Fault::Exists),
            (InvalidFilename, Fault::Name),
            (StorageFull, Fault::Storage),
            (QuotaExceeded, Fault::Storage),
            (ReadOnlyFilesystem, Fault::Storage),
            (Interrupted, Fault::Storage),
            (PermissionDenied, Fault::Refused),
            (NotFound, Fault::Refused),
            (NotADirectory, Fault::Refused),
            (Other, Fault::Refused),
        ] {
            assert_eq!(fault(&kind.into()), expected, "{kind:?}");
        }
        #[cfg(target_os = "linux")]
        for (code, expected) in [
            (84, Fault::Name),
            (36, Fault::Name),
            (24, Fault::Storage),
            (28, Fault::Storage),
            (5, Fault::Refused),
        ] {
            assert_eq!(fault(&io::Error::from_raw_os_error(code)), expected, "{code}");
        }
    }
}
