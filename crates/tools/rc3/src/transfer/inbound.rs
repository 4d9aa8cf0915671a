//! One transfer at the receiver, from the manifest to the last file.
//!
//! Each file has its own task, which writes chunks at their offsets in order of arrival. Placing it (verify, mode,
//! time, name) waits for the sender's hash. Memory: half a megabyte per arriving file, plus the connection's windows.

use std::{
    collections::{HashSet, VecDeque},
    io,
    mem::take,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use rc3_net::RecvStream;
use tokio::{task::JoinSet, time::timeout};

use super::{
    agreement::Agreement,
    arrivals::Arrivals,
    arriving::{Arrived, is_small, receive},
    asked::Asked,
    background,
    conclude::Parting,
    content::Content,
    destination::Destination,
    expected::{Expected, Received},
    lost,
    message::{self, FromReceiver, FromSender, Kind, Refusal, Work},
    outage::{patiently, silence},
    parting,
    paths::SafePath,
    progress::{Reporter, Summary, count},
    session::{FINAL_PATIENCE, Session, unasked},
    ticks,
    verdict::{Fault, Omission, Verdict},
};
use crate::error::{Error, ErrorKind, Result};

/// Most files between their first byte and their final name. With those of all senders, below the usual limit of 1024.
const OPEN_FILES_MAX: usize = 128;
/// So many small files count as one of these while they arrive: they are in memory, not open. The last ones of them arrive
/// first, at low priority.
const SMALL_AS_ONE: usize = 8;
/// Most files that are placed at a time.
const PLACED_AT_ONCE: usize = 16;
/// Time for the end of a stream whose content is void, once all files are in place.
const VOID_PATIENCE: Duration = Duration::from_secs(3);
/// Most streams of a sender with the ticket: small files that fill a long path.
const STREAMS_MAX: u32 = 4096;

/// One transfer.
struct Transfer<'a> {
    session: Session,
    /// `None`: standard output.
    destination: Option<&'a Destination>,
    agreement: Agreement,
    arrivals: Arrivals<Box<Arrived>>,
    work: JoinSet<TaskDone>,
    /// Small files in `work`.
    small: usize,
    /// Files that are placed in `work`, and complete ones that wait for it.
    placing: usize,
    ready: VecDeque<Ready>,
    arrived: Arc<AtomicU64>,
}

/// A file to be placed, and its hash by the sender.
type Ready = (u32, Box<Arrived>, [u8; 32]);

/// The result of a file's task.
enum TaskDone {
    /// With whether it is a small one.
    Received(u32, bool, Result<Box<Arrived>, Fault>),
    /// With the file's length.
    Placed(u32, Result<u64, Fault>),
}

/// How a transfer ended without an error that ends it early.
pub(super) enum Finish {
    /// The sender only asked.
    DryRun,
    /// All files are settled: in place, or reported in the error.
    Complete(Result<()>),
}

/// Receives what one sender has, below `destination` or on standard output.
pub(super) async fn run(
    mut session: Session,
    destination: Option<&Destination>,
    reporter: &mut Reporter,
) -> Result<Finish> {
    let (connection, there) =
        (session.channel.connection.clone(), destination.map(Destination::begin_transfer));
    let mut is_pipe = false;
    let received = async {
        let (manifest, end) = read_manifest(&mut session).await?;
        is_pipe = manifest.is_pipe();
        receive_all(session, there.as_ref(), manifest, end, reporter).await
    };
    let received = received.await;
    // The sender should receive the reason before its connection is dropped.
    let Parting { code, reason, .. } = parting(received.as_ref().err(), destination);
    connection.close(code, reason.as_bytes());
    match received {
        Ok(Finish::Complete(Err(error))) if is_pipe => Ok(Finish::Complete(Err(error.of_pipe()))),
        // Standard output cannot take its bytes back.
        Err(error) if is_pipe && there.is_none() => Ok(Finish::Complete(Err(error.of_pipe()))),
        Err(error) if is_pipe => Err(error.of_pipe()),
        received => received,
    }
}

/// What follows the manifest.
struct End {
    /// The sender only asks what would happen.
    dry_run: bool,
    /// Files of entries below this index come in any case.
    early: u32,
}

/// Reads up to the end of the manifest.
async fn read_manifest(session: &mut Session) -> Result<(Received, End)> {
    let mut manifest = Received::below(session.asked.link_floor());
    let error = loop {
        session.sign_of_life(Work::Comparing).await?;
        let added = match session.hear_soon("its list of files", Duration::ZERO).await {
            Ok(FromSender::Entry(entry)) => manifest.add(session.asked.named(entry)),
            Ok(FromSender::Attribute(attribute)) => manifest.add_attribute(attribute),
            Ok(FromSender::Absent { path, reason }) => manifest.add_absent(&path, &reason),
            Ok(FromSender::ManifestEnd { .. }) if session.asked.is_download() && manifest.entries() == 0 => {
                break unasked("nothing of what was asked for");
            }
            Ok(FromSender::ManifestEnd { early, .. }) if !manifest.admits_early(early) => {
                break Error::protocol("too many files before they were accepted");
            }
            Ok(FromSender::ManifestEnd { dry_run, early }) => return Ok((manifest, End { dry_run, early })),
            Ok(FromSender::Abort { reason }) => return Err(Error::peer(&reason)),
            Ok(_) => return Err(Error::protocol("an unexpected message")),
            Err(error) if error.kind() == ErrorKind::Unasked && session.asked == Asked::Pipe => {
                break Error::refused("it writes to a pipe; send with: rc3 send - <FILE");
            }
            Err(error) if error.kind() == ErrorKind::Unasked => break error,
            Err(error) => return Err(error),
        };
        if let Err(error) = added {
            break error;
        }
    };
    session.refuse(Refusal::Manifest, error).await
}

async fn receive_all(
    mut session: Session,
    destination: Option<&Destination>,
    manifest: Received,
    End { dry_run, early }: End,
    reporter: &mut Reporter,
) -> Result<Finish> {
    let connection = session.channel.connection.clone();
    connection.set_max_concurrent_uni_streams(STREAMS_MAX.into());
    let (announced, total) = (manifest.entries(), (!manifest.is_pipe()).then_some(manifest.bytes()));
    if !dry_run {
        reporter.misleading(&manifest.misleading);
    }
    if let Some(there) = destination {
        manifest.dropped(there.policy().preserve).report(reporter);
    }
    let arrived = Arc::<AtomicU64>::default();
    let mut agreement = match destination {
        Some(there) => Agreement::reach(&mut session, there, manifest, &arrived, dry_run, early).await?,
        None => Agreement::of_pipe(manifest),
    };
    agreement.say(&mut session, dry_run).await?;
    if dry_run {
        let _ = patiently(&connection, FINAL_PATIENCE, connection.closed()).await;
        return Ok(Finish::DryRun);
    }
    reporter.start(agreement.files.len(), total, agreement.there, agreement.needed, &connection);
    let unchanged_files = agreement.there.0;
    let (words, to_come) = (take(&mut agreement.words), take(&mut agreement.to_come));
    let arrivals = Arrivals::new(announced, to_come.into_iter());
    let work = JoinSet::new();
    let (small, placing, ready) = (0, 0, VecDeque::new());
    let mut transfer =
        Transfer { session, destination, agreement, arrivals, work, small, placing, ready, arrived };
    for word in words {
        transfer.on_message(word).await?;
    }
    transfer.receive_files(reporter).await?;
    transfer.finish(reporter).await?;
    if let Some(bare @ 1..) = destination.map(Destination::take_bare) {
        reporter.note(&format!("this file system did not take all attributes of {}", count(bare, "file")));
    }

    let Transfer { mut session, agreement, .. } = transfer;
    let stats = connection.stats().received;
    let summary = Summary {
        primary_bytes: stats.primary_bytes,
        rlp_bytes: stats.rlp_bytes.iter().skip(1).copied().collect(),
        duplicate_bytes: stats.duplicate_bytes,
        ..reporter.summary(unchanged_files)
    };
    reporter.done(summary);
    // The files are in place, whatever the sender learns: only here is its exit code at stake.
    if session.asked.is_download() {
        session.say(&FromReceiver::Finished).await?;
    } else {
        session.channel.say_last(&FromReceiver::Finished).await;
    }
    Ok(Finish::Complete(agreement.unkept.conclude(0, reporter)))
}

impl Transfer<'_> {
    async fn receive_files(&mut self, reporter: &mut Reporter) -> Result<()> {
        let connection = self.session.channel.connection.clone();
        let mut tick = ticks();
        while !self.arrivals.is_done() {
            while self.placing < PLACED_AT_ONCE
                && let Some((at, arrived, hash)) = self.ready.pop_front()
            {
                self.placing += 1;
                self.work.spawn_blocking(move || TaskDone::Placed(at, arrived.place(hash)));
            }
            let large = self.work.len() - self.small + self.arrivals.complete() + self.ready.len();
            let room = large + self.small / SMALL_AS_ONE < OPEN_FILES_MAX;
            tokio::select! {
                stream = connection.accept_uni(), if room && self.arrivals.has_streams() => {
                    self.begin(stream.map_err(lost)?);
                }
                message = self.session.hear() => self.on_message(message?).await?,
                Some(done) = self.work.join_next() => {
                    let done = done.map_err(background)?;
                    self.on_task_done(done, reporter).await?;
                }
                _ = tick.tick() => {
                    reporter.silent(silence(&connection));
                    reporter.progress(self.arrived.load(Relaxed));
                    self.session.sign_of_life(Work::Storing).await?;
                }
            }
        }
        // Of what is void, a part is left until its stream has broken off.
        let rest = async {
            while let Some(done) = self.work.join_next().await {
                self.on_task_done(done.map_err(background)?, reporter).await?;
            }
            Ok(())
        };
        timeout(VOID_PATIENCE, rest).await.unwrap_or(Ok(()))
    }

    /// The next stream carries the next file that has content.
    fn begin(&mut self, stream: RecvStream) {
        let Some(at) = self.arrivals.next_stream().filter(|&at| !self.arrivals.is_settled(at)) else {
            return;
        };
        let Some(file) = self.file(at).cloned() else { return };
        let (destination, arrived) = (self.destination.cloned(), Arc::clone(&self.arrived));
        let resumed = self.agreement.resumed.remove(&at);
        let small = is_small(&file);
        self.small += usize::from(small);
        self.work.spawn(async move {
            TaskDone::Received(at, small, receive(stream, destination, file, resumed, arrived).await)
        });
    }

    async fn on_message(&mut self, message: FromSender) -> Result<()> {
        match message {
            FromSender::Hash { entry, hash } => {
                self.arrivals.on_sent(entry, hash).map_err(Error::protocol)?;
                self.complete_without_stream(entry).await
            }
            FromSender::Again { entry, kind } => self.on_again(entry, kind),
            FromSender::Omit { entry, omission } => self.on_omit(entry, omission),
            FromSender::Abort { reason } => Err(Error::peer(&reason)),
            _ => Err(Error::protocol("an unexpected message")),
        }
    }

    /// Another version of a file comes; what arrived of the first one is void.
    fn on_again(&mut self, at: u32, kind: Kind) -> Result<()> {
        let Some(old) = self.file(at).cloned() else {
            return Err(Error::protocol("a file outside the agreement"));
        };
        let new = self.agreement.totals.replace(&old, kind)?;
        let (entry, void) = self.arrivals.on_again(at, new.has_stream()).map_err(Error::protocol)?;
        self.agreement.files.push(Expected { entry, ..new });
        discard(void, self.agreement.resumed.remove(&at));
        Ok(())
    }

    /// The sender leaves a file out. What arrived of an unreadable one may be continued later.
    fn on_omit(&mut self, at: u32, omission: Omission) -> Result<()> {
        let void = self.arrivals.on_omit(at, omission == Omission::Changed).map_err(Error::protocol)?;
        let resumed = self.agreement.resumed.remove(&at);
        if omission == Omission::Changed {
            discard(void, resumed);
        }
        // Its hash came before, and all of it has arrived.
        if self.arrivals.is_placing(at) {
            return Ok(());
        }
        if self.arrivals.settle(at)
            && let Some(path) = self.file(at).map(|file| file.path.clone())
        {
            self.agreement.unkept.add(&path, &Verdict::Omitted(omission));
        }
        Ok(())
    }

    /// A file without missing bytes has no stream that would complete it.
    async fn complete_without_stream(&mut self, at: u32) -> Result<()> {
        if let Some(content) = self.without_stream(at) {
            match content.and_then(Arrived::complete) {
                Ok(arrived) => drop(self.arrivals.on_content(at, arrived)),
                Err(error) => return self.give_up(at, error.into()).await,
            }
        }
        self.place(at);
        Ok(())
    }

    /// The content of a file without missing bytes.
    fn without_stream(&mut self, at: u32) -> Option<io::Result<Content>> {
        let resumed = &mut self.agreement.resumed;
        if self.arrivals.is_settled(at) {
            return None;
        }
        if resumed.get(&at).is_some_and(|content| content.missing().is_empty()) {
            return resumed.remove(&at).map(Ok);
        }
        let file = self.file(at).filter(|file| !file.has_stream())?;
        Some(Content::create(self.destination?, file, Arc::clone(&self.arrived)))
    }

    async fn on_task_done(&mut self, done: TaskDone, reporter: &mut Reporter) -> Result<()> {
        match &done {
            TaskDone::Received(_, small, _) => self.small -= usize::from(*small),
            TaskDone::Placed(..) => self.placing -= 1,
        }
        match done {
            TaskDone::Received(at, _, Ok(content)) => {
                let unwanted = if content.is_broken() {
                    self.arrivals.on_broken(at, content)
                } else {
                    self.arrivals.on_content(at, content)
                };
                // Other content that is not wanted may be continued by another run.
                discard(unwanted.filter(|_| self.arrivals.is_void(at)), None);
                self.place(at);
                Ok(())
            }
            TaskDone::Received(at, _, Err(error)) => self.give_up(at, error).await,
            TaskDone::Placed(at, Ok(bytes)) => {
                self.arrivals.settle(at);
                let Some(path) = self.file(at).map(|file| file.path.clone()) else { return Ok(()) };
                self.on_placed(at, &path, bytes, reporter).await
            }
            TaskDone::Placed(at, Err(error)) => self.give_up(at, error).await,
        }
    }

    /// Goes on without a file, if the others can arrive.
    async fn give_up(&mut self, at: u32, error: Fault) -> Result<()> {
        let path = self.file(at).map(|file| file.path.clone());
        match path.filter(|_| self.arrivals.settle(at)) {
            Some(path) => self.fail(at, path, error).await,
            None => Ok(()),
        }
    }

    /// Verifies and names a file once it has both its content and its hash.
    fn place(&mut self, at: u32) {
        if let Some((arrived, hash)) = self.arrivals.ready(at) {
            self.ready.push_back((at, arrived, hash));
        }
    }

    /// Signals to the sender that an entry is not kept; an error if the transfer ends.
    async fn fail(&mut self, entry: u32, path: SafePath, error: Fault) -> Result<()> {
        let error = match error {
            Fault::Settled(verdict) => {
                self.agreement.unkept.add(&path, &verdict);
                return self.session.say(&FromReceiver::Settled { entry, verdict }).await;
            }
            Fault::System(error) => Error::write(path, &error),
            Fault::Ended(error) => error,
        };
        let refusal = match error.kind() {
            ErrorKind::Busy | ErrorKind::Lost | ErrorKind::Gone => return Err(error),
            ErrorKind::Protocol => Refusal::Manifest,
            _ => Refusal::Storage,
        };
        self.session.refuse(refusal, error).await
    }

    /// Makes the links, after all files, then sets modes and times of directories, and syncs what the policy wants.
    async fn finish(&mut self, reporter: &mut Reporter) -> Result<()> {
        let Some(there) = self.destination.cloned() else { return Ok(()) };
        let links = take(&mut self.agreement.links);
        let with_first = |link: Expected| {
            let first = link.first.and_then(|first| Some(self.file(first)?.path.clone()));
            (link, first)
        };
        let links: Vec<_> = links.into_iter().map(with_first).collect();
        let files = take(&mut self.agreement.files);
        let directories = take(&mut self.agreement.directories);
        let finish = move || {
            let mut finished = Vec::new();
            let announced = files.into_iter().filter(|_| !links.is_empty());
            let announced: HashSet<_> = announced.map(|file| file.path).collect();
            for (mut link, first) in links {
                let made = match &link.link {
                    Some(target) => there.make_link(&link, target),
                    None => there.make_hard_link(&mut link, first.as_ref(), &announced),
                };
                let made = made.and_then(|()| Ok(there.0.sync_name(link.path.as_path())?));
                finished.push((link, made));
            }
            // Inner directories first, while the outer ones are still open.
            for (directory, new) in directories.into_iter().rev() {
                if let Err(error) = there.finish_directory(&directory, new) {
                    finished.push((directory, Err(Fault::Settled(Verdict::Refused(message::reason(error))))));
                }
            }
            there.finish().map(|()| finished)
        };
        let finished = self.session.blocking(Work::Storing, finish).await?;
        let failed = |error| Error::local("complete the directories", error);
        for (Expected { entry, path, .. }, outcome) in finished.map_err(failed)? {
            match outcome {
                Ok(()) => self.on_placed(entry, &path, 0, reporter).await?,
                Err(fault) => self.fail(entry, path, fault).await?,
            }
        }
        Ok(())
    }

    async fn on_placed(
        &mut self,
        entry: u32,
        path: &SafePath,
        bytes: u64,
        reporter: &mut Reporter,
    ) -> Result<()> {
        reporter.file(path, bytes);
        self.session.say(&FromReceiver::Settled { entry, verdict: Verdict::Placed }).await
    }

    fn file(&self, at: u32) -> Option<&Expected> {
        let files = &self.agreement.files;
        files.get(files.binary_search_by_key(&at, |file| file.entry).ok()?)
    }
}

fn discard(arrived: Option<Box<Arrived>>, resumed: Option<Content>) {
    arrived.into_iter().for_each(|arrived| arrived.discard());
    resumed.into_iter().for_each(Content::discard);
}
