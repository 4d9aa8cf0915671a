//! The receiving side of a pipe: to standard output, or into a file that the sender names.

use std::{
    io::{self, Write},
    time::Duration,
};

use rc3_net::{ReadError, RecvStream};
use tokio::time::{MissedTickBehavior, timeout};

use super::{
    super::{
        admission::Admission,
        conclude::conclude,
        destination::{Destination, Existing},
        error::TransferError,
        expected::Expected,
        lost,
        message::{self, Fault, FromReceiver, FromSender, Refusal},
        part::{Part, PlaceError},
        paths::{Rules, SafePath, printable_bytes},
        places::{NAMES_MAX, numbered},
        progress::{Reporter, line},
        receive::{ReceiveJob, listen, parting, ticket_file},
        session::{FINAL_PATIENCE, Session},
    },
    CHUNK_BYTES, STREAM, interrupted_pipe, of_pipe,
    output::Output,
    progress::Progress,
};

/// Prints a ticket on standard error, and writes the first stream that arrives to standard output.
///
/// # Errors
/// See [`TransferError`]. A sender of files is refused but does not end the receiver.
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn receive_to_stdout(job: ReceiveJob, reporter: &mut Reporter) -> Result<(), TransferError> {
    let (endpoint, ticket) = listen(&job)?;
    let written = ticket_file(&job, &ticket)?;
    match &written {
        Some(file) => reporter.listening_by_file(file.path()),
        None => {
            reporter.note("on the other machine: COMMAND | rc3 send - TICKET, with this ticket:");
            line(io::stderr(), &ticket.to_string());
        }
    }
    let mut admission = Admission::new(endpoint.clone(), ticket.secret());
    let work = serve(&mut admission, reporter);
    conclude(&endpoint, work, interrupted_pipe(), |error| parting(error, &job.policy)).await
}

async fn serve(admission: &mut Admission, reporter: &mut Reporter) -> Result<(), TransferError> {
    loop {
        let Some(mut session) = admission.next_session() else {
            if let Some(turned_away) = admission.next_event().await {
                reporter.note(&turned_away);
            }
            continue;
        };
        match session.hear_soon("what it sends", Duration::ZERO).await {
            Ok(FromSender::Pipe { .. }) => {
                let failed = TransferError::Output;
                return receive(session, io::stdout(), failed, |_, _| Ok(()), reporter).await;
            }
            Ok(_) => {
                let reason = "it writes to a pipe; send with: rc3 send - <FILE".to_owned();
                session.refuse(Refusal::Manifest, reason).await;
                reporter.note("refused a sender of files; still waiting for a pipe");
            }
            Err(error) => reporter.note(&error.to_string()),
        }
    }
}

/// Writes a stream into the file that the sender names. It gets its name when it is complete and verified.
pub(in super::super) async fn receive_file(
    mut session: Session,
    destination: &Destination,
    name: Option<Vec<u8>>,
    reporter: &mut Reporter,
) -> Result<(), TransferError> {
    let (file, part) = match create(destination, name) {
        Ok(created) => created,
        Err((refusal, error)) => {
            session.refuse(refusal, error.to_string()).await;
            return Err(error);
        }
    };
    let path = file.path.to_string();
    let failed = |error: io::Error| TransferError::Write { path: path.clone(), error };
    let place = |part: PartWriter, bytes| {
        let complete = Expected { bytes, ..file };
        part.part.finish(&complete).map_err(|error| match error {
            PlaceError::Taken | PlaceError::Shared => TransferError::Conflicts(1),
            PlaceError::Io(error) => failed(error),
        })
    };
    receive(session, PartWriter { part, at: 0 }, &failed, place, reporter).await
}

/// The file that the sender names, still without its name.
fn create(
    destination: &Destination,
    name: Option<Vec<u8>>,
) -> Result<(Expected, Part), (Refusal, TransferError)> {
    let Some(name) = name else {
        let reason = "a stream without a name; use rc3 send --name, or rc3 recv --stdout".to_owned();
        return Err((Refusal::Manifest, TransferError::Refused(reason)));
    };
    let refused = |fault: &dyn std::fmt::Display| {
        let shown = printable_bytes(name.get(..80).unwrap_or(&name));
        (Refusal::Manifest, TransferError::Refused(format!("the name {shown}: {fault}")))
    };
    let path = SafePath::parse(&name, Rules::HERE).map_err(|fault| refused(&fault))?;
    if path.parent().is_some() {
        return Err(refused(&"it names a directory"));
    }
    let Some(path) = free_name(destination, path) else {
        return Err((Refusal::Exists, TransferError::Conflicts(1)));
    };
    let file = Expected::new(path, 0);
    match destination.create(&file) {
        Ok(part) => Ok((file, part)),
        Err(error) => Err((Refusal::Storage, TransferError::Write { path: file.path.to_string(), error })),
    }
}

/// The name that the file gets, by the policy for names that are taken.
fn free_name(destination: &Destination, path: SafePath) -> Option<SafePath> {
    let seen = |path: &SafePath| destination.0.dir.symlink_metadata(path.as_path()).ok();
    let Some(existing) = seen(&path) else { return Some(path) };
    match destination.policy().existing {
        Existing::Replace => existing.is_file().then_some(path),
        Existing::KeepBoth => {
            (1..=NAMES_MAX).filter_map(|number| numbered(&path, number)).find(|path| seen(path).is_none())
        }
        Existing::Report => None,
    }
}

/// Appends to a part.
struct PartWriter {
    part: Part,
    at: u64,
}

impl Write for PartWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.part.write_at(bytes, self.at)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Receives the stream into `to`, places it, and signals the result to the sender.
async fn receive<W: Write + Send + 'static>(
    mut session: Session,
    to: W,
    failed: impl Fn(io::Error) -> TransferError,
    place: impl FnOnce(W, u64) -> Result<(), TransferError>,
    reporter: &mut Reporter,
) -> Result<(), TransferError> {
    session.say(&FromReceiver::Accepted).await?;
    let peer = session.connection.remote_address().to_string();
    let rc3 = session.connection.is_rc3();
    let mut progress = Progress::start(reporter.style(), "receiving", &peer, rc3);
    let mut output = Output::new(to);
    let outcome = async {
        verified(&mut session, &mut output, &failed, &mut progress).await?;
        let written = output.finish().await.map_err(&failed)?;
        place(written, progress.bytes)
    };
    if let Err(error) = outcome.await {
        if let Some(fault) = fault(&error) {
            let reason = message::reason(&error);
            session.send_final(&FromReceiver::FileFailed { file: STREAM, fault, reason }).await;
        }
        return Err(of_pipe(error));
    }
    session.send_final(&FromReceiver::Finished).await;
    progress.done();
    // The sender closes after it received this; closing first could cut it off.
    let _ = timeout(FINAL_PATIENCE, session.connection.closed()).await;
    Ok(())
}

/// Passes the whole stream on, and compares its hash with the sender's.
async fn verified<W: Write + Send + 'static>(
    session: &mut Session,
    output: &mut Output<W>,
    failed: &impl Fn(io::Error) -> TransferError,
    progress: &mut Progress,
) -> Result<(), TransferError> {
    let connection = session.connection.clone();
    let (mut stream, mut hash, mut hasher) = (None, None, blake3::Hasher::new());
    let mut complete = false;
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !complete || hash.is_none() {
        tokio::select! {
            opened = connection.accept_uni(), if stream.is_none() => stream = Some(opened.map_err(lost)?),
            chunk = next_chunk(&mut stream), if stream.is_some() && !complete => match chunk {
                Ok(Some(chunk)) => {
                    hasher.update(&chunk);
                    progress.bytes += chunk.len() as u64;
                    output.write(chunk).await.map_err(failed)?;
                }
                Ok(None) => complete = true,
                Err(ReadError::ConnectionLost(error)) => return Err(lost(error)),
                Err(error) => {
                    let explained = session.abort_reason().await;
                    return Err(explained.unwrap_or_else(|| TransferError::Lost(error.to_string())));
                }
            },
            message = session.hear() => match message? {
                FromSender::FileSent { file: STREAM, hash: sent } if hash.is_none() => hash = Some(sent),
                FromSender::Abort { reason } => return Err(TransferError::peer(&reason)),
                _ => return Err(TransferError::Protocol("an unexpected message".to_owned())),
            },
            _ = tick.tick() => progress.show(),
        }
    }
    let arrived = *hasher.finalize().as_bytes();
    if hash == Some(arrived) { Ok(()) } else { Err(TransferError::NotVerified("the stream".to_owned())) }
}

/// The next bytes in order.
async fn next_chunk(stream: &mut Option<RecvStream>) -> Result<Option<bytes::Bytes>, ReadError> {
    match stream {
        Some(stream) => Ok(stream.read_chunk(CHUNK_BYTES, true).await?.map(|chunk| chunk.bytes)),
        None => std::future::pending().await,
    }
}

/// What the sender cannot know by itself.
fn fault(error: &TransferError) -> Option<Fault> {
    match error {
        TransferError::Output(_) | TransferError::Write { .. } => Some(Fault::Storage),
        TransferError::NotVerified(_) => Some(Fault::NotVerified),
        TransferError::Conflicts(_) => Some(Fault::Exists),
        _ => None,
    }
}
