//! One transfer with one peer, for `rc3 copy`: either end may send, and either may listen.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use rc3_core::units::Rate;
use rc3_net::Endpoint;

use super::{
    asked::Asked,
    destination::{Destination, Policy},
    inbound::{self, Finish},
    manifest::{Found, Selection},
    outbound::Outbound,
    paths::{directory_of, printable_path},
    progress::Reporter,
    random::random,
    session::{Control, Session},
};
use crate::error::{Error, Result};

/// What this side does.
pub(crate) enum Side {
    /// Sends, at this mean rate at most.
    Send(Found, Option<Rate>),
    /// Receives what it asked for.
    Receive(Destination, Asked),
}

impl Side {
    /// Sends these paths, the only one under another name if there is one.
    pub(crate) fn sending(
        paths: &[PathBuf],
        selection: &Selection,
        rename: Option<&[u8]>,
        limit: Option<Rate>,
    ) -> Result<Self> {
        let mut found = Found::scan(paths, selection)?;
        if let Some(name) = rename {
            found.rename(name).map_err(Error::refused)?;
        }
        if found.entries.is_empty() { Err(Error::nothing()) } else { Ok(Self::Send(found, limit)) }
    }

    /// Receives so many sources into `path`. Also returns the new name that it gives to a single source.
    pub(crate) fn receiving(
        path: &Path,
        sources: usize,
        policy: Policy,
        asked: Asked,
    ) -> Result<(Self, Option<Vec<u8>>)> {
        let failed = |error| Error::local(format!("copy into {}", printable_path(path)), error);
        let (dir, rename) = landing(path, sources).ok_or_else(|| {
            let hint = "make that directory first";
            failed(io::ErrorKind::NotADirectory.into()).hinted(hint)
        })?;
        let destination = Destination::open(&dir, policy, random()?).map_err(failed)?;
        Ok((Self::Receive(destination, asked), rename))
    }

    /// Where this side receives.
    pub(crate) fn destination(&self) -> Option<&Destination> {
        match self {
            Self::Send(..) => None,
            Self::Receive(destination, _) => Some(destination),
        }
    }

    /// The whole transfer over a connection of this endpoint, with so much time for each message of the peer.
    pub(crate) async fn run(
        &self,
        endpoint: &Endpoint,
        control: Control,
        patience: Duration,
        reporter: &mut Reporter,
    ) -> Result<()> {
        match self {
            Self::Send(found, limit) => {
                let outbound = Outbound::new(control, patience, found, false, *limit);
                outbound.run(&mut None, endpoint.marks(), reporter).await
            }
            Self::Receive(destination, asked) => {
                let session = Session::new(control, patience, asked.clone());
                match inbound::run(session, Some(destination), reporter).await? {
                    Finish::Complete(result) => result,
                    Finish::DryRun => Ok(()),
                }
            }
        }
    }
}

/// Where sources land, as for `cp` and scp: a directory, and for one source possibly a new name in it. `None` if `path` is
/// neither.
fn landing(path: &Path, sources: usize) -> Option<(PathBuf, Option<Vec<u8>>)> {
    if path.is_dir() {
        return Some((path.to_owned(), None));
    }
    let names_directory = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    let name = path.file_name()?.as_encoded_bytes().to_owned();
    let dir = directory_of(path).to_owned();
    let is_new_name = sources == 1 && !names_directory && dir.is_dir();
    is_new_name.then_some((dir, Some(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_source_may_get_a_new_name() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path();
        let named = |name: &str| (dir.to_owned(), Some(name.into()));
        assert_eq!(landing(dir, 3), Some((dir.to_owned(), None)));
        assert_eq!(landing(&dir.join("new"), 1), Some(named("new")));
        assert_eq!(landing(&dir.join("new"), 2), None);
        assert_eq!(landing(&dir.join("new/"), 1), None);
        assert_eq!(landing(&dir.join("none/new"), 1), None);
        assert_eq!(landing(Path::new("new"), 1).map(|(dir, _)| dir), Some(".".into()));
    }
}
