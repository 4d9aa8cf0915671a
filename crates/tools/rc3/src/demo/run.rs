//! The runs: two real endpoints on loopback sockets, the emulated link between them, one fresh connection per
//! transfer.
//!
//! The client sends, the server receives. FCT is the time from the call of `connect` to the receiver's last byte, both
//! read from one clock. The schemes alternate and share everything except the RLP loop: sockets, marks, windows,
//! congestion control, path MTU discovery.
//!
//! Invariant: one transfer at a time, and the link is emptied between transfers.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use rc3_net::{
    ClientConfig, Congestion, ConnectionStats, Endpoint, EndpointOptions, MtuDiscoveryConfig, RlpMode,
    ServerConfig, TransportConfig, VarInt, marks::MarkChoice,
};
use rc3_text::units::{about_bytes, about_time};
use tokio::time::timeout;

use super::{
    report::{DemoReport, SizeResult, TransferMedian, TransferSample},
    scenario::{DemoScenario, Runs},
};
use crate::{
    check::{flow, plan::Amount},
    emulator::{EmulatorConfig, LinkEmulator},
    error::{Error, ErrorKind, Result},
    scheme::Scheme,
    transfer::identity::{self, Identity, SERVER_NAME},
};

const ALPN: &[u8] = b"rc3-demo";

/// Minimum of the flow-control windows, so that they are never the limit.
const WINDOW_MIN: u64 = 64 << 20;

/// One transfer finished.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FinishedTransfer {
    /// The size.
    pub bytes: u64,
    /// The scheme.
    pub scheme: Scheme,
    /// The run, from 1.
    pub run: u32,
    /// Its FCT.
    pub fct: Duration,
}

/// Runs the whole scenario; calls `progress` after every transfer.
///
/// # Errors
/// When a transfer fails, or arrives damaged.
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn run(scenario: &DemoScenario, mut progress: impl FnMut(FinishedTransfer)) -> Result<DemoReport> {
    let began = Instant::now();
    let ends = Ends::open(scenario)?;
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
        let link = ends.link(scenario, scenario.emulated.seed.wrapping_add(u64::from(run)))?;
        for (&bytes, samples) in scenario.sizes.iter().zip(&mut samples) {
            for (scheme, samples) in Scheme::BOTH.into_iter().zip(samples) {
                link.reset();
                if scenario.forget {
                    ends.sender.forget_verdicts();
                }
                let sample = ends.transfer(scenario, scheme, &link, bytes).await?;
                progress(FinishedTransfer { bytes, scheme, run, fct: sample.fct });
                samples.push(sample);
            }
        }
        longest = longest.max(round.elapsed());
        runs = run;
    }
    let rows = scenario.sizes.iter().zip(&samples).filter_map(|(&bytes, [plain, rc3])| {
        let plain = TransferMedian::new(scenario, bytes, Scheme::Plain, plain)?;
        Some(SizeResult { plain, rc3: TransferMedian::new(scenario, bytes, Scheme::Rc3, rc3)? })
    });
    Ok(DemoReport { rows: rows.collect(), runs, scenario: scenario.clone() })
}

/// Both endpoints and the configurations of both schemes.
struct Ends {
    sender: Endpoint,
    receiver: Endpoint,
    plain: ClientConfig,
    rc3: ClientConfig,
}

impl Ends {
    fn open(scenario: &DemoScenario) -> Result<Self> {
        let identity = Identity::generate()?;
        let client = Arc::new(identity::client(Some(identity.fingerprint()), ALPN)?);
        let config = |mode| {
            let mut config = ClientConfig::new(Arc::clone(&client));
            config.transport_config(Arc::new(transport(scenario, mode)));
            config
        };
        let mut server = ServerConfig::with_crypto(Arc::new(identity.server(ALPN)?));
        server.transport_config(Arc::new(transport(scenario, RlpMode::default())));

        // The link recognises levels by their code points.
        let options = || EndpointOptions { marks: MarkChoice::PerLevel.into(), ..EndpointOptions::default() };
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let sender = Endpoint::bind(options(), None, any).map_err(no_sockets)?;
        if !sender.capabilities().primary.dscp {
            tracing::warn!("this system sends no code points, so links that honour priorities see one class");
        }
        Ok(Self {
            sender,
            receiver: Endpoint::bind(options(), Some(server), any).map_err(no_sockets)?,
            plain: config(RlpMode::Off),
            rc3: config(scenario.rlp),
        })
    }

    fn link(&self, scenario: &DemoScenario, seed: u64) -> Result<LinkEmulator> {
        let config = EmulatorConfig { seed, ..scenario.emulated.clone() };
        let address = self.receiver.local_addr().map_err(no_sockets)?;
        LinkEmulator::start(config, address).map_err(no_sockets)
    }

    async fn transfer(
        &self,
        scenario: &DemoScenario,
        scheme: Scheme,
        link: &LinkEmulator,
        bytes: u64,
    ) -> Result<TransferSample> {
        let config = if scheme == Scheme::Plain { &self.plain } else { &self.rc3 };
        let (amount, patience) = (Amount::Bytes(bytes), scenario.patience(bytes));
        let receiving = tokio::spawn(receive(self.receiver.clone(), amount, patience));

        let start = Instant::now();
        let whole = async {
            let connecting = self.sender.connect_with(config.clone(), link.client_addr(), SERVER_NAME);
            let connection = connecting.map_err(|error| failed("connect", error))?.await?;
            flow::send(&connection, amount, patience).await?;
            connection.close(VarInt::from_u32(0), b"done");
            tracing::debug!(?scheme, bytes, stats = ?connection.try_stats(), link = ?link.stats(), "sent");
            receiving.await.map_err(|error| failed("receive", error))?
        };
        let too_slow = |_| {
            let (size, time) = (about_bytes(bytes), about_time(patience));
            Error::new(
                ErrorKind::Other,
                format!("{size} by {} did not arrive within {time}", scheme.name()),
                "try a lower --rate, smaller --sizes or less --loss, or a less busy machine",
            )
        };
        let (last_byte, stats) = timeout(patience, whole).await.map_err(too_slow)??;
        let levels = usize::from(scenario.ladder.levels());
        Ok(TransferSample {
            fct: last_byte.duration_since(start),
            primary_bytes: stats.received.primary_bytes,
            rlp_bytes: stats.received.rlp_bytes.iter().skip(1).take(levels).copied().collect(),
            duplicate_bytes: stats.received.duplicate_bytes,
        })
    }
}

/// Accepts the next connection and its one flow, until the sender closes; returns when the last byte arrived.
async fn receive(
    endpoint: Endpoint,
    amount: Amount,
    patience: Duration,
) -> Result<(Instant, ConnectionStats)> {
    let incoming = endpoint.accept().await.ok_or_else(|| failed("accept", "the endpoint has stopped"))?;
    let connection = incoming.accept()?.await?;
    flow::receive(&connection, amount, patience).await?;
    let received = (Instant::now(), connection.stats());
    connection.closed().await;
    Ok(received)
}

fn failed(what: &str, error: impl std::fmt::Display) -> Error {
    Error::local(what, error).hinted("run it again with RUST_LOG=debug for details")
}

fn no_sockets(error: io::Error) -> Error {
    let hint = "check that this host allows UDP sockets on 127.0.0.1";
    Error::local("set up sockets on the loopback interface", error).hinted(hint)
}

/// The configuration of both ends; schemes differ only in the RLP loop.
fn transport(scenario: &DemoScenario, mode: RlpMode) -> TransportConfig {
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
