//! The runs: two real endpoints on loopback sockets, the emulated link between them, one fresh connection per
//! transfer.
//!
//! The client sends, the server receives. FCT is the time from the call of `connect` to the receiver's last byte, both
//! read from one clock. The schemes alternate and share everything except the RLP loop: sockets, marks, windows,
//! congestion control, path MTU discovery.
//!
//! Invariant: one transfer at a time, and the link is emptied between transfers.

use std::{
    future::Future,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use rand_pcg::{
    Pcg64Mcg,
    rand_core::{Rng, SeedableRng},
};
use rc3_net::{
    ClientConfig, Congestion, ConnectError, Connection, ConnectionError, ConnectionStats, Endpoint,
    EndpointOptions, MtuDiscoveryConfig, ReadError, RlpMode, ServerConfig, TransportConfig, VarInt,
    WriteError, marks::Marks,
};
use rc3_text::units::{about_bytes, about_time};
use thiserror::Error;

use super::{
    report::{Measured, Report, Row, Sample},
    scenario::{Runs, Scenario},
};
use crate::{
    emulator::{EmulatorConfig, LinkEmulator},
    error,
    scheme::Scheme,
    transfer::identity::{self, Identity, SERVER_NAME},
};

const ALPN: &[u8] = b"rc3-demo";

/// Minimum of the flow-control windows, so that they are never the limit.
const WINDOW_MIN: u64 = 64 << 20;

/// One transfer finished.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// The size.
    pub bytes: u64,
    /// The scheme.
    pub scheme: Scheme,
    /// The run, from 1.
    pub run: u32,
    /// Its FCT.
    pub fct: Duration,
}

/// Why a run failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DemoError {
    /// Cannot create sockets or the link.
    #[error("cannot set up sockets on the loopback interface: {0}")]
    Socket(#[from] io::Error),
    /// Cannot create a certificate.
    #[error(transparent)]
    Identity(#[from] error::Error),
    /// Cannot connect.
    #[error("cannot connect: {0}")]
    Connect(#[from] ConnectError),
    /// The connection was lost.
    #[error("the connection was lost: {0}")]
    Lost(#[from] ConnectionError),
    /// The sender's stream failed.
    #[error("sending failed: {0}")]
    Write(#[from] WriteError),
    /// The receiver's stream failed.
    #[error("receiving failed: {0}")]
    Read(#[from] ReadError),
    /// The results cannot be written.
    #[error("cannot write the results: {0}")]
    Output(io::Error),
    /// The transfer took too long.
    #[error("{} {} did not arrive within {}", about_bytes(*bytes), name(*scheme), about_time(*patience))]
    TooSlow {
        /// The size.
        bytes: u64,
        /// The scheme.
        scheme: Scheme,
        /// The timeout.
        patience: Duration,
    },
}

impl DemoError {
    /// What the user can do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Socket(_) => "check that this host allows UDP sockets on 127.0.0.1",
            Self::Identity(_) => "check that the system provides random numbers (/dev/urandom)",
            Self::Output(_) => "check free space and permissions",
            Self::TooSlow { .. } => {
                "try a lower --rate, smaller --sizes or less --loss, or a less busy machine"
            }
            _ => "run it again with RUST_LOG=debug for details",
        }
    }
}

/// Runs the whole scenario; calls `progress` after every transfer.
///
/// # Errors
/// When a transfer fails. A damaged transfer is not an error: the report shows it.
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn run(scenario: &Scenario, mut progress: impl FnMut(Step)) -> Result<Report, DemoError> {
    let began = Instant::now();
    let ends = Ends::open(scenario)?;
    let mut random = Pcg64Mcg::seed_from_u64(scenario.seed);
    let mut samples = vec![[Vec::new(), Vec::new()]; scenario.sizes.len()];
    let mut longest = Duration::ZERO;
    let mut runs = 0;
    for run in 1..=scenario.runs.most() {
        if let Runs::AsFit { budget, .. } = scenario.runs
            && run > 1
            && began.elapsed() + longest > budget
        {
            break;
        }
        let round = Instant::now();
        // Different losses in each run, but the same for both schemes.
        let link = ends.link(scenario, scenario.seed.wrapping_add(u64::from(run)))?;
        for (&bytes, samples) in scenario.sizes.iter().zip(&mut samples) {
            for (scheme, samples) in Scheme::BOTH.into_iter().zip(samples) {
                link.reset();
                if scenario.forget {
                    ends.sender.forget_verdicts();
                }
                let sample = ends.transfer(scenario, scheme, &link, payload(&mut random, bytes)).await?;
                progress(Step { bytes, scheme, run, fct: sample.fct });
                samples.push(sample);
            }
        }
        longest = longest.max(round.elapsed());
        runs = run;
    }
    let rows = scenario.sizes.iter().zip(&samples).filter_map(|(&bytes, [plain, rc3])| {
        let plain = Measured::new(scenario, bytes, Scheme::Plain, plain)?;
        Some(Row { plain, rc3: Measured::new(scenario, bytes, Scheme::Rc3, rc3)? })
    });
    Ok(Report { rows: rows.collect(), runs, scenario: scenario.clone() })
}

/// Both endpoints and the configurations of both schemes.
struct Ends {
    sender: Endpoint,
    receiver: Endpoint,
    plain: ClientConfig,
    rc3: ClientConfig,
}

impl Ends {
    fn open(scenario: &Scenario) -> Result<Self, DemoError> {
        let identity = Identity::generate()?;
        let client = Arc::new(identity::client(identity.fingerprint(), ALPN)?);
        let config = |mode| {
            let mut config = ClientConfig::new(Arc::clone(&client));
            config.transport_config(Arc::new(transport(scenario, mode)));
            config
        };
        let mut server = ServerConfig::with_crypto(Arc::new(identity.server(ALPN)?));
        server.transport_config(Arc::new(transport(scenario, RlpMode::default())));

        // The link recognises levels by their code points.
        let options = || EndpointOptions { marks: Marks::per_level(), ..EndpointOptions::default() };
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Ok(Self {
            sender: Endpoint::bind(options(), None, any)?,
            receiver: Endpoint::bind(options(), Some(server), any)?,
            plain: config(RlpMode::Off),
            rc3: config(scenario.rlp),
        })
    }

    fn link(&self, scenario: &Scenario, seed: u64) -> io::Result<LinkEmulator> {
        let mut config = EmulatorConfig::new(scenario.rate, scenario.rtt);
        config.buffer = scenario.buffer;
        config.loss = scenario.loss;
        config.load = scenario.load;
        config.queue = scenario.queue;
        config.marks = Marks::per_level();
        config.seed = seed;
        LinkEmulator::start(config, self.receiver.local_addr()?)
    }

    async fn transfer(
        &self,
        scenario: &Scenario,
        scheme: Scheme,
        link: &LinkEmulator,
        payload: Bytes,
    ) -> Result<Sample, DemoError> {
        let sent_hash = blake3::hash(&payload);
        let bytes = payload.len() as u64;
        let receiving = tokio::spawn(receive(self.receiver.clone(), bytes));
        let config = if scheme == Scheme::Plain { &self.plain } else { &self.rc3 };
        let patience = scenario.patience(bytes);

        let start = Instant::now();
        let whole = async {
            let connecting = self.sender.connect_with(config.clone(), link.client_addr(), SERVER_NAME)?;
            let connection = connecting.await?;
            let mut stream = connection.open_uni().await?;
            stream.write_chunk(payload).await?;
            // The transfer cannot have finished before.
            let _ = stream.finish();
            let received = receiving.await.map_err(io::Error::from)??;
            // The receiver closes; the close empties the sender.
            connection.closed().await;
            tracing::debug!(?scheme, bytes, stats = ?connection.try_stats(), link = ?link.stats(), "sent");
            Ok(received)
        };
        let received =
            within(patience, whole).await.unwrap_or(Err(DemoError::TooSlow { bytes, scheme, patience }))?;

        let mut hasher = blake3::Hasher::new();
        for chunk in &received.chunks {
            hasher.update(chunk);
        }
        let levels = usize::from(scenario.ladder.levels());
        let counted = received.stats.received;
        Ok(Sample {
            fct: received.last_byte.duration_since(start),
            primary_bytes: counted.primary_bytes,
            rlp_bytes: counted.rlp_bytes.iter().skip(1).take(levels).copied().collect(),
            duplicate_bytes: counted.duplicate_bytes,
            verified: hasher.finalize() == sent_hash,
        })
    }
}

/// What the receiver got.
struct Received {
    last_byte: Instant,
    chunks: Vec<Bytes>,
    stats: ConnectionStats,
}

/// Accepts the next connection and its one stream, and closes after the last byte.
async fn receive(endpoint: Endpoint, bytes: u64) -> Result<Received, DemoError> {
    let stopped = || io::Error::new(io::ErrorKind::NotConnected, "the endpoint has stopped");
    let incoming = endpoint.accept().await.ok_or_else(stopped)?;
    let connection: Connection = incoming.accept()?.await?;
    let mut stream = connection.accept_uni().await?;
    let (mut chunks, mut arrived) = (Vec::new(), 0);
    let mut last_byte = Instant::now();
    while let Some(chunk) = stream.read_chunk(usize::MAX, true).await? {
        arrived += chunk.bytes.len() as u64;
        if arrived == bytes {
            last_byte = Instant::now();
        }
        chunks.push(chunk.bytes);
    }
    tracing::debug!(bytes, end_after = ?last_byte.elapsed(), "received");
    let stats = connection.stats();
    connection.close(VarInt::from_u32(0), b"received");
    Ok(Received { last_byte, chunks, stats })
}

/// The configuration of both ends; schemes differ only in the RLP loop.
fn transport(scenario: &Scenario, mode: RlpMode) -> TransportConfig {
    let largest = scenario.sizes.iter().copied().max().unwrap_or(0);
    let window = largest.saturating_mul(2).max(WINDOW_MIN);
    let stream_window = VarInt::from_u64(window).unwrap_or(VarInt::MAX);
    let both_loops = VarInt::from_u64(window.saturating_mul(2)).unwrap_or(VarInt::MAX);
    let mut config = TransportConfig::default();
    config.rlp(mode).ladder(scenario.ladder).nic_rate(Some(scenario.nic)).congestion(Congestion::Cubic);
    config.stream_receive_window(stream_window).receive_window(both_loops).send_window(window);
    config.rlp_stream_window(window).rlp_window(window);
    // As for the emulated link, not for loopback.
    config.mtu_discovery_config(Some(MtuDiscoveryConfig::default()));
    config
}

async fn within<T>(patience: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(patience, work).await.ok()
}

fn payload(random: &mut Pcg64Mcg, bytes: u64) -> Bytes {
    let mut payload = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
    random.fill_bytes(&mut payload);
    payload.into()
}

fn name(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Plain => "by plain QUIC",
        Scheme::Rc3 => "by rc3",
    }
}
