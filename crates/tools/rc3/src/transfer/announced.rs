//! What a sender announces before the receiver answers.

use std::time::Duration;

use super::{
    error::TransferError,
    expected::Received,
    message::{FromSender, Refusal, Work},
    session::Session,
};

/// What a sender announces.
pub(super) enum Announced {
    /// Files and directories, and whether the sender only asks what would happen.
    Manifest(Received, bool),
    /// A stream of unknown length, to be stored under this name.
    Pipe(Option<Vec<u8>>),
}

/// Reads up to the end of the manifest.
pub(super) async fn read_manifest(session: &mut Session) -> Result<Announced, TransferError> {
    let (mut manifest, mut dry_run) = (Received::below(session.asked().link_floor()), false);
    let outcome = loop {
        session.sign_of_life(Work::Comparing).await?;
        let added = match session.hear_soon("its list of files", Duration::ZERO).await {
            Ok(FromSender::Entry(entry)) => manifest.add(entry),
            Ok(FromSender::Absent { path, reason }) => manifest.add_absent(&path, &reason),
            Ok(FromSender::DryRun) => {
                dry_run = true;
                Ok(())
            }
            Ok(FromSender::ManifestEnd) if session.asked().is_download() && manifest.is_empty() => {
                break TransferError::Unanswered;
            }
            Ok(FromSender::ManifestEnd) => return Ok(Announced::Manifest(manifest, dry_run)),
            Ok(FromSender::Pipe { name }) if manifest.is_empty() && !dry_run => {
                return Ok(Announced::Pipe(name));
            }
            Ok(FromSender::Abort { reason }) => return Err(TransferError::peer(&reason)),
            Ok(_) => return Err(TransferError::Protocol("an unexpected message".to_owned())),
            Err(error @ TransferError::Unasked) => break error,
            Err(error) => return Err(error),
        };
        if let Err(error) = added {
            break error.into();
        }
    };
    session.refuse(Refusal::Manifest, outcome.to_string()).await;
    Err(outcome)
}
