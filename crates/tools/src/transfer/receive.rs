//! The receiving side: `rc3 recv`.
//!
//! A door lets in whoever knows the secret; one transfer runs at a time, others wait. Every file is received
//! by a task of its own that writes chunks where they belong, in the order in which they come; placing it
//! (verify, mode, time, name) comes after the sender's hash. Memory: half a megabyte per file on its way, and
//! what the connection's windows hold. What a broken transfer leaves of large files stays until the next one
//! begins, which goes on with it or removes it, or until this ends.

use std::{
    collections::{HashMap, VecDeque},
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use rc3_net::{
    Congestion, Connection, Endpoint, Incoming, RecvStream, RlpMode, SendStream, ServerConfig, VarInt,
    file::RecvFileError,
};
use tokio::{
    io::BufReader,
    task::{JoinError, JoinSet},
    time::{MissedTickBehavior, timeout},
};

use super::{
    close_code,
    content::Content,
    destination::{Destination, Part, Policy},
    error::TransferError,
    identity::Identity,
    interrupted, lost,
    manifest::{Expected, Received},
    message::{self, ALPN, Fault, FromReceiver, FromSender, MessageError, Messages, Refusal, VERSION},
    paths::printable,
    progress::{Reporter, Summary},
    ticket::{SECRET_BYTES, Secret, Ticket},
    transport,
};

/// Strangers at the door at a time.
const ARRIVING_MAX: usize = 16;
/// Authorised senders that wait for their turn.
const WAITING_MAX: usize = 16;
/// Files between their first byte and their place.
const OPEN_FILES_MAX: usize = 256;
/// Files that an earlier transfer left and that are gone on with.
const RESUMED_MAX: usize = 64;
/// How long a stranger may take to say the secret.
const HELLO_PATIENCE: Duration = Duration::from_secs(10);
/// How long the last word may take to arrive.
const LAST_WORD_PATIENCE: Duration = Duration::from_secs(3);

/// Where to receive, and how.
#[derive(Debug, Clone)]
pub struct ReceiveJob {
    /// The directory; must exist.
    pub dir: PathBuf,
    /// The address to listen on; `None` is any, IPv4 and IPv6.
    pub listen: Option<SocketAddr>,
    /// What the ticket says instead of the address of the default route: a host, and a port if it differs.
    pub advertise: Option<(String, Option<u16>)>,
    /// Go on after the first complete transfer.
    pub keep: bool,
    /// What to do with files.
    pub policy: Policy,
    /// Where qlog files go.
    pub qlog: Option<PathBuf>,
    /// Whether RLP may run.
    pub rlp: RlpMode,
}

/// Prints a ticket and receives: one complete transfer, or all that come.
///
/// # Errors
/// See [`TransferError`]. A transfer that fails is told and does not end this.
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn receive(job: ReceiveJob, reporter: &mut Reporter) -> Result<(), TransferError> {
    let identity = Identity::generate()?;
    let mut config = ServerConfig::with_crypto(Arc::new(identity.server(ALPN)?));
    config.transport_config(Arc::new(transport(job.rlp, Congestion::default(), job.qlog.as_deref())?));
    let endpoint = bind(config, job.listen)?;
    let local = |what: &str, error| TransferError::Local { what: what.to_owned(), error };
    let address = endpoint.local_addr().map_err(|error| local("find the port", error))?;

    let secret = Secret(random::<SECRET_BYTES>()?);
    let (host, port) = match &job.advertise {
        Some((host, port)) => (host.clone(), port.unwrap_or(address.port())),
        None => (reachable(address.ip()).to_string(), address.port()),
    };
    let ticket = Ticket::new(&host, port, identity.fingerprint(), secret)
        .map_err(|error| local("make a ticket", io::Error::new(io::ErrorKind::InvalidInput, error)))?;
    // A directory that is not there should be known before anybody is invited.
    let destination = open(&job)?;
    reporter.listening(&ticket.to_string());

    let mut door =
        Door { endpoint: endpoint.clone(), secret, arriving: JoinSet::new(), waiting: VecDeque::new() };
    let outcome = tokio::select! {
        outcome = serve(&job, &mut door, &destination, reporter) => outcome,
        () = interrupted() => Err(TransferError::Interrupted),
    };
    // Removes what is not complete, whatever still runs.
    destination.close();
    let (code, reason) = close_code(&outcome);
    endpoint.close(code, reason.as_bytes());
    let _ = timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
    outcome
}

async fn serve(
    job: &ReceiveJob,
    door: &mut Door,
    destination: &Destination,
    reporter: &mut Reporter,
) -> Result<(), TransferError> {
    loop {
        let guest = loop {
            match door.waiting.pop_front() {
                Some(guest) => break guest,
                None => {
                    if let Some(turned_away) = door.turn().await {
                        reporter.note(&turned_away);
                    }
                }
            }
        };
        let connection = guest.connection.clone();
        destination.set_keeping(true);
        let mut transfer = Box::pin(Transfer::run(guest, destination, reporter));
        let outcome = loop {
            tokio::select! {
                outcome = &mut transfer => break outcome,
                _ = door.turn() => {}
            }
        };
        drop(transfer);
        // Only where the connection was to blame does it make sense to go on.
        destination.set_keeping(matches!(outcome, Err(TransferError::Lost(_))));
        // The next sender may wait already, for a file that is still being let go of.
        let _ = timeout(LAST_WORD_PATIENCE, idle(destination)).await;
        let (code, reason) = close_code(&outcome);
        connection.close(code, reason.as_bytes());
        match outcome {
            Ok(()) if job.keep => reporter.note("waiting for the next sender, with the same ticket"),
            Ok(()) => return Ok(()),
            Err(error) => {
                reporter.error(&error);
                reporter.note("still waiting, the same ticket is good for another try");
            }
        }
    }
}

/// Until no file is in use: those of a transfer that has ended are closed where they are being written.
async fn idle(destination: &Destination) {
    while !destination.is_idle() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn open(job: &ReceiveJob) -> Result<Destination, TransferError> {
    let tag = data_encoding::HEXLOWER.encode(&random::<4>()?);
    Destination::open(&job.dir, job.policy, tag).map_err(|error| TransferError::Local {
        what: format!("receive into {}", printable(&job.dir.to_string_lossy())),
        error,
    })
}

/// Lets in those who know the secret.
struct Door {
    endpoint: Endpoint,
    secret: Secret,
    arriving: JoinSet<Result<Guest, String>>,
    waiting: VecDeque<Guest>,
}

/// An authorised sender.
struct Guest {
    connection: Connection,
    control: SendStream,
    messages: Messages<FromSender>,
}

impl Door {
    /// Somebody knocks, or is let in, or is turned away: then the words for it.
    ///
    /// Dropping the future loses nobody.
    async fn turn(&mut self) -> Option<String> {
        tokio::select! {
            incoming = self.endpoint.accept() => match incoming {
                Some(incoming) if self.arriving.len() < ARRIVING_MAX => {
                    self.arriving.spawn(authorise(incoming, self.secret));
                }
                Some(incoming) => incoming.refuse(),
                // Closed: nobody comes any more.
                None => std::future::pending().await,
            },
            Some(arrived) = self.arriving.join_next() => match arrived {
                Ok(Ok(guest)) if self.waiting.len() < WAITING_MAX => self.waiting.push_back(guest),
                Ok(Ok(guest)) => guest.connection.close(VarInt::from_u32(1), b"too many senders wait"),
                Ok(Err(reason)) => return Some(reason),
                Err(error) => return Some(error.to_string()),
            },
        }
        None
    }
}

/// Reads the first message, and nothing else before the secret is right.
async fn authorise(incoming: Incoming, secret: Secret) -> Result<Guest, String> {
    let address = incoming.remote_address();
    let away = |reason: &dyn ToString| format!("turned away {address}: {}", printable(&reason.to_string()));
    let meet = async {
        let connection = incoming.accept().map_err(|e| away(&e))?.await.map_err(|e| away(&e))?;
        let (control, messages) = connection.accept_bi().await.map_err(|e| away(&e))?;
        let mut messages = BufReader::new(messages);
        let hello = message::read::<FromSender>(&mut messages).await.map_err(|e| away(&e))?;
        Ok::<_, String>((Guest { connection, control, messages: message::listen(messages) }, hello))
    };
    let (mut guest, hello) = timeout(HELLO_PATIENCE, meet).await.map_err(|_| away(&"said nothing"))??;
    let (refusal, reason) = match hello {
        FromSender::Hello { version, .. } if version != VERSION => {
            (Refusal::Version, format!("it speaks version {VERSION}, not {version}"))
        }
        FromSender::Hello { secret: said, .. } if Secret(said) != secret => {
            (Refusal::Unauthorised, "the secret of the ticket is wrong".to_owned())
        }
        FromSender::Hello { .. } => return Ok(guest),
        _ => (Refusal::Manifest, "it wants to hear `Hello` first".to_owned()),
    };
    let words = away(&reason);
    guest.last_word(&FromReceiver::Refused { refusal, reason }).await;
    guest.connection.close(VarInt::from_u32(1), b"refused");
    Err(words)
}

impl Guest {
    async fn say(&mut self, message: &FromReceiver) -> Result<(), TransferError> {
        let written = self.control.write_chunk(message::encode(message).into()).await;
        written.map_err(|error| match self.connection.close_reason() {
            Some(reason) => lost(reason),
            None => TransferError::Lost(error.to_string()),
        })
    }

    /// Says it and waits, not for ever, until it has arrived.
    async fn last_word(&mut self, message: &FromReceiver) {
        let said = async {
            if self.say(message).await.is_ok() {
                let _ = self.control.finish();
                let _ = self.control.stopped().await;
            }
        };
        // Who does not listen need not hear.
        let _ = timeout(LAST_WORD_PATIENCE, said).await;
    }

    async fn refuse(&mut self, refusal: Refusal, reason: String) {
        let reason = message::reason(reason);
        self.last_word(&FromReceiver::Refused { refusal, reason }).await;
    }
}

/// One transfer from manifest to last file.
struct Transfer<'a> {
    guest: Guest,
    destination: &'a Destination,
    files: Vec<Expected>,
    /// The files that have a stream, in the order of their streams.
    streams: VecDeque<u32>,
    work: JoinSet<Worked>,
    /// What the sender says it sent, by file, until the content is here too.
    hashes: HashMap<u32, [u8; 32]>,
    /// Files that an earlier transfer left, until their streams come.
    resumed: HashMap<u32, Content>,
    /// Complete content by file, until the hash is here too.
    contents: HashMap<u32, Arrived>,
    placed: usize,
    arrived: Arc<AtomicU64>,
}

/// A file's bytes, all of them, in a file without its name.
struct Arrived {
    part: Part,
    hash: blake3::Hash,
}

/// What a task has done with a file.
enum Worked {
    Received(u32, Result<Arrived, FileError>),
    Placed(u32, Result<(), FileError>),
}

/// Why a file could not be kept.
enum FileError {
    Storage(io::Error),
    NotVerified,
    Exists,
    Lost(RecvFileError),
    Length,
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        Self::Storage(error)
    }
}

impl From<JoinError> for FileError {
    fn from(error: JoinError) -> Self {
        Self::Storage(error.into())
    }
}

impl Transfer<'_> {
    async fn run(
        mut guest: Guest,
        destination: &Destination,
        reporter: &mut Reporter,
    ) -> Result<(), TransferError> {
        let manifest = read_manifest(&mut guest).await?;
        let total = manifest.bytes();
        let arrived = Arc::<AtomicU64>::default();
        let (files, resumed) = prepare(&mut guest, destination, manifest, &arrived).await?;
        let count = files.len();
        for (&file, content) in &resumed {
            let there = files.get(file as usize).map_or(0, |file| file.bytes) - content.gaps().len();
            arrived.fetch_add(there, Relaxed);
            guest.say(&FromReceiver::Missing { file, gaps: content.gaps().said() }).await?;
        }
        guest.say(&FromReceiver::Accepted).await?;
        let peer = guest.connection.remote_address().to_string();
        reporter.start(count, total, &peer, guest.connection.is_rc3());

        let numbered = (0u32..).zip(&files);
        let missing = |at: &u32, file: &Expected| {
            resumed.get(at).map_or(file.bytes > 0, |content: &Content| !content.gaps().is_empty())
        };
        let streams = numbered.filter(|(at, file)| missing(at, file)).map(|(at, _)| at).collect();
        let mut transfer = Transfer {
            guest,
            destination,
            files,
            streams,
            work: JoinSet::new(),
            hashes: HashMap::new(),
            resumed,
            contents: HashMap::new(),
            placed: 0,
            arrived,
        };
        transfer.receive_files(reporter).await?;

        let Transfer { mut guest, .. } = transfer;
        let seconds = reporter.elapsed();
        let stats = guest.connection.stats().received;
        reporter.progress(total);
        guest.last_word(&FromReceiver::Finished).await;
        reporter.done(Summary {
            files: count,
            bytes: total,
            seconds,
            bytes_per_second: total as f64 / seconds.max(1e-9),
            primary_bytes: stats.primary_bytes,
            rlp_bytes: stats.rlp_bytes.iter().skip(1).copied().collect(),
            duplicate_bytes: stats.duplicate_bytes,
            steered_seconds: None,
        });
        // The sender closes once it has heard; closing first could cut it off.
        let _ = timeout(LAST_WORD_PATIENCE, guest.connection.closed()).await;
        Ok(())
    }

    async fn receive_files(&mut self, reporter: &mut Reporter) -> Result<(), TransferError> {
        let connection = self.guest.connection.clone();
        let mut tick = tokio::time::interval(Duration::from_millis(100));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while self.placed < self.files.len() {
            let room = self.work.len() + self.contents.len() < OPEN_FILES_MAX;
            tokio::select! {
                stream = connection.accept_uni(), if room && !self.streams.is_empty() => {
                    let stream = stream.map_err(lost)?;
                    self.begin(stream).await?;
                }
                message = self.guest.messages.recv() => {
                    let message = heard(&connection, message)?;
                    self.on_message(message).await?;
                }
                Some(worked) = self.work.join_next() => {
                    let worked = worked.map_err(|error| background(error.into()))?;
                    self.on_worked(worked, reporter).await?;
                }
                _ = tick.tick() => reporter.progress(self.arrived.load(Relaxed)),
            }
        }
        Ok(())
    }

    /// The next stream carries the next file that has content.
    async fn begin(&mut self, stream: RecvStream) -> Result<(), TransferError> {
        let Some(at) = self.streams.pop_front() else { return Ok(()) };
        let Some(file) = self.file(at).cloned() else { return Ok(()) };
        let (destination, arrived) = (self.destination.clone(), Arc::clone(&self.arrived));
        let resumed = self.resumed.remove(&at);
        self.work.spawn(async move {
            let content = match resumed {
                Some(content) => Ok(content),
                None => create(destination, file, arrived).await,
            };
            Worked::Received(at, async { receive_content(stream, content?).await }.await)
        });
        Ok(())
    }

    async fn on_message(&mut self, message: FromSender) -> Result<(), TransferError> {
        match message {
            FromSender::FileSent { file: at, hash } => {
                let Some(file) = self.file(at) else {
                    return Err(TransferError::Protocol("a file that is not in the manifest".to_owned()));
                };
                let empty = file.bytes == 0;
                if self.hashes.insert(at, hash).is_some() {
                    return Err(TransferError::Protocol("a file sent twice".to_owned()));
                }
                // Without a stream nothing else tells that it is complete.
                let content = match self.resumed.remove(&at) {
                    Some(content) if content.gaps().is_empty() => Some(Ok(content)),
                    Some(content) => {
                        self.resumed.insert(at, content);
                        None
                    }
                    None if empty => {
                        let arrived = Arc::clone(&self.arrived);
                        Some(Content::create(self.destination, &self.files[at as usize], arrived))
                    }
                    None => None,
                };
                if let Some(content) = content {
                    match content.and_then(Content::complete) {
                        Ok((part, hash)) => drop(self.contents.insert(at, Arrived { part, hash })),
                        Err(error) => return Err(self.fail(at, error.into()).await),
                    }
                }
                self.place(at);
                Ok(())
            }
            FromSender::Abort { reason } => Err(TransferError::Peer(printable(&reason))),
            _ => Err(TransferError::Protocol("a message out of turn".to_owned())),
        }
    }

    async fn on_worked(&mut self, worked: Worked, reporter: &mut Reporter) -> Result<(), TransferError> {
        match worked {
            Worked::Received(at, Ok(content)) => {
                self.contents.insert(at, content);
                self.place(at);
                Ok(())
            }
            Worked::Placed(at, Ok(())) => {
                self.placed += 1;
                if let Some(file) = self.file(at) {
                    reporter.file(file.path.as_str(), file.bytes);
                }
                self.guest.say(&FromReceiver::FileDone { file: at }).await
            }
            Worked::Received(at, Err(error)) | Worked::Placed(at, Err(error)) => {
                Err(self.fail(at, error).await)
            }
        }
    }

    /// Verifies and names a file once both its content and its hash are here.
    fn place(&mut self, at: u32) {
        if !self.hashes.contains_key(&at) || !self.contents.contains_key(&at) {
            return;
        }
        // The hash stays, so that a second one is noticed.
        let hash = self.hashes.get(&at).copied();
        if let (Some(hash), Some(content), Some(file)) = (hash, self.contents.remove(&at), self.file(at)) {
            let file = file.clone();
            self.work.spawn_blocking(move || Worked::Placed(at, finish(content, &file, hash)));
        }
    }

    /// Tells the sender why the transfer ends.
    async fn fail(&mut self, at: u32, error: FileError) -> TransferError {
        let path = self.file(at).map_or_else(String::new, |file| file.path.to_string());
        let (fault, error) = match error {
            FileError::Storage(error) => (Fault::Storage, TransferError::Write { path, error }),
            FileError::NotVerified => (Fault::NotVerified, TransferError::NotVerified(path)),
            FileError::Exists => (Fault::Exists, TransferError::Exists(path)),
            FileError::Length => {
                (Fault::NotVerified, TransferError::Protocol(format!("{path} is not as long as announced")))
            }
            // It may have said why on the other stream.
            FileError::Lost(error) => return self.why_reset(error).await,
        };
        let reason = message::reason(&error);
        self.guest.last_word(&FromReceiver::FileFailed { file: at, fault, reason }).await;
        error
    }

    /// A stream that was given up is explained by an abort.
    async fn why_reset(&mut self, error: RecvFileError) -> TransferError {
        if let RecvFileError::ConnectionLost(error) = error {
            return lost(error);
        }
        let messages = &mut self.guest.messages;
        let abort = async {
            while let Some(Ok(message)) = messages.recv().await {
                if let FromSender::Abort { reason } = message {
                    return Some(TransferError::Peer(printable(&reason)));
                }
            }
            None
        };
        let explained = timeout(LAST_WORD_PATIENCE, abort).await.ok().flatten();
        explained.unwrap_or_else(|| TransferError::Lost(error.to_string()))
    }

    fn file(&self, at: u32) -> Option<&Expected> {
        self.files.get(usize::try_from(at).ok()?)
    }
}

/// Everything up to the end of the manifest.
async fn read_manifest(guest: &mut Guest) -> Result<Received, TransferError> {
    let mut manifest = Received::default();
    loop {
        let message = guest.messages.recv().await;
        match heard(&guest.connection, message)? {
            FromSender::Entry(entry) => {
                if let Err(error) = manifest.add(entry) {
                    guest.refuse(Refusal::Manifest, error.to_string()).await;
                    return Err(error.into());
                }
            }
            FromSender::ManifestEnd => return Ok(manifest),
            FromSender::Abort { reason } => return Err(TransferError::Peer(printable(&reason))),
            _ => return Err(TransferError::Protocol("a message out of turn".to_owned())),
        }
    }
}

/// Refuses what is in the way of something, and makes the directories.
async fn prepare(
    guest: &mut Guest,
    destination: &Destination,
    manifest: Received,
    arrived: &Arc<AtomicU64>,
) -> Result<(Vec<Expected>, HashMap<u32, Content>), TransferError> {
    let (destination, arrived) = (destination.clone(), Arc::clone(arrived));
    let prepared = tokio::task::spawn_blocking(move || {
        let mut taken = manifest.files.iter().map(|file| &file.path);
        if let Some(path) = taken.find(|path| destination.conflict(path).is_some()) {
            return Err((Refusal::Exists, path.to_string(), TransferError::Exists(path.to_string())));
        }
        for path in &manifest.directories {
            if let Err(error) = destination.create_dir(path.as_str()) {
                let error = TransferError::Write { path: path.to_string(), error };
                return Err((Refusal::Storage, error.to_string(), error));
            }
        }
        let resumed = (0u32..)
            .zip(&manifest.files)
            .filter_map(|(at, file)| Some((at, Content::resume(&destination, file, Arc::clone(&arrived))?)));
        let resumed = resumed.take(RESUMED_MAX).collect();
        destination.remove_kept();
        Ok((manifest.files, resumed))
    });
    match prepared.await {
        Ok(Ok(prepared)) => Ok(prepared),
        Ok(Err((refusal, reason, error))) => {
            guest.refuse(refusal, reason).await;
            Err(error)
        }
        Err(error) => Err(background(error.into())),
    }
}

async fn create(
    destination: Destination,
    file: Expected,
    arrived: Arc<AtomicU64>,
) -> Result<Content, FileError> {
    let created = tokio::task::spawn_blocking(move || Content::create(&destination, &file, arrived));
    Ok(created.await??)
}

/// Writes a stream's bytes where they belong, whatever comes first.
async fn receive_content(mut stream: RecvStream, content: Content) -> Result<Arrived, FileError> {
    let missing = content.gaps().len();
    let content = Arc::new(content);
    let received = stream.recv_file(Arc::clone(&content), missing).await;
    let fault = match received {
        Ok(bytes) if bytes == missing => None,
        Ok(_) | Err(RecvFileError::TooLong) => Some(FileError::Length),
        Err(RecvFileError::Write { error, .. }) => Some(FileError::Storage(error)),
        Err(error) => return Err(FileError::Lost(error)),
    };
    if let Some(fault) = fault {
        content.discard();
        return Err(fault);
    }
    let completed = tokio::task::spawn_blocking(move || match Arc::into_inner(content) {
        Some(content) => content.complete(),
        None => Err(io::Error::other("the file is still in use")),
    });
    let (part, hash) = completed.await??;
    Ok(Arrived { part, hash })
}

fn finish(content: Arrived, file: &Expected, hash: [u8; 32]) -> Result<(), FileError> {
    content.part.discard();
    if content.hash != hash {
        return Err(FileError::NotVerified);
    }
    content.part.finish(file).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => FileError::Exists,
        _ => FileError::Storage(error),
    })
}

/// A message, or why there is none.
fn heard(
    connection: &Connection,
    message: Option<Result<FromSender, MessageError>>,
) -> Result<FromSender, TransferError> {
    match (message, connection.close_reason()) {
        (Some(Ok(message)), _) => Ok(message),
        (_, Some(error)) => Err(lost(error)),
        (Some(Err(error)), None) => Err(error.into()),
        (None, None) => Err(TransferError::Lost("the control stream ended".to_owned())),
    }
}

fn background(error: io::Error) -> TransferError {
    TransferError::Local { what: "work in the background".to_owned(), error }
}

/// Any address of both families where the system has both, else IPv4.
fn bind(config: ServerConfig, listen: Option<SocketAddr>) -> Result<Endpoint, TransferError> {
    let failed = |error| {
        let at = listen.map_or_else(|| "any address".to_owned(), |address| address.to_string());
        TransferError::Local { what: format!("listen on {at}"), error }
    };
    if let Some(address) = listen {
        return Endpoint::server(config, address).map_err(failed);
    }
    Endpoint::server(config.clone(), (Ipv6Addr::UNSPECIFIED, 0).into())
        .or_else(|_| Endpoint::server(config, (Ipv4Addr::UNSPECIFIED, 0).into()))
        .map_err(failed)
}

/// The address to advertise when listening on `ip`: itself, or for any address the one that the default route
/// leaves from. Finding it sends nothing.
pub fn reachable(ip: IpAddr) -> IpAddr {
    if !ip.is_unspecified() {
        return ip;
    }
    // Documentation addresses (RFC 5737, RFC 3849): routed by default, and nobody's.
    let v4 = || route(Ipv4Addr::UNSPECIFIED.into(), (Ipv4Addr::new(192, 0, 2, 1), 9).into());
    let v6 = || {
        let far = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
        if ip.is_ipv6() { route(Ipv6Addr::UNSPECIFIED.into(), (far, 9).into()) } else { None }
    };
    v4().or_else(v6).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

fn route(from: IpAddr, to: SocketAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((from, 0)).ok()?;
    socket.connect(to).ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_unspecified()).then_some(ip)
}

/// Bytes nobody can guess.
///
/// # Errors
/// When the system has none.
pub fn random<const N: usize>() -> Result<[u8; N], TransferError> {
    use ring::rand::{SecureRandom, SystemRandom};
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| TransferError::Local {
        what: "get random numbers".to_owned(),
        error: io::Error::other("the system has none"),
    })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_name_an_address_others_can_use() {
        let ip = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(reachable(ip), ip);
        assert!(!reachable(Ipv4Addr::UNSPECIFIED.into()).is_unspecified());
        assert!(!reachable(Ipv6Addr::UNSPECIFIED.into()).is_unspecified());
    }
}
