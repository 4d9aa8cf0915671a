//! The last part of a check: a flow by rc3 in each direction, and what each sender measured of its path.
//!
//! The listener announces its certificate in its replies. The connection first proves that it holds the ticket. Then
//! one stream goes there; after it arrived, one comes back, followed by its figures. Both are bounded in bytes and
//! time, whatever the other side sends.

use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use rc3_net::{ClientConfig, Connection, Endpoint, RecvStream, SendStream, ServerConfig, VarInt};
use rc3_text::units::{about_bytes, about_rate};
use serde::{Deserialize, Serialize};
use tokio::time::{interval, timeout, timeout_at};

use super::{Step, probe::Key};
use crate::{
    figures::PathFigures,
    transfer::{
        identity::{self, Identity, SERVER_NAME},
        network::Network,
        ticket::Fingerprint,
    },
};

const ALPN: &[u8] = b"rc3-doctor/1";
/// Bytes of stream in each direction.
pub const BYTES: usize = 4_000_000;
/// Longest duration of one direction.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest wait for the other side's connection or message.
const MEET_PATIENCE: Duration = Duration::from_secs(5);
/// Interval of progress reports.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Most bytes of the other side's figures.
const WORD_MAX: usize = 16 << 10;
const CHUNK: usize = 64 << 10;
const DONE: VarInt = VarInt::from_u32(0);

/// One direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Bytes of stream that arrived.
    pub bytes: u64,
    /// Time until the sender knew that, or until the limit.
    pub seconds: f64,
    /// Whether all of it arrived.
    pub complete: bool,
    /// What the sender measured.
    pub path: PathFigures,
}

/// Both directions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Flows {
    /// To the peer.
    pub there: Flow,
    /// From the peer, as reported by the peer.
    pub back: Option<Flow>,
}

impl Flows {
    pub(super) fn text(&self) -> String {
        let back = self.back.as_ref().map_or_else(String::new, |back| back.text("back"));
        self.there.text("there") + &back
    }
}

impl Flow {
    fn text(&self, direction: &str) -> String {
        let over = if self.complete { "" } else { ", then the time limit ended it" };
        format!(
            "  flow {direction}: {} in {:.2} s, {}{over}\n{}",
            about_bytes(self.bytes),
            self.seconds,
            about_rate(self.bytes as f64 * 8.0 / self.seconds.max(1e-9)),
            self.path.text("    "),
        )
    }
}

/// Sends to the listener at `remote`, whose certificate has that fingerprint, and receives from it.
///
/// # Errors
/// When the connection fails or ends.
pub async fn measure(
    remote: SocketAddr,
    fingerprint: Fingerprint,
    key: &Key,
    network: &Network,
    progress: &mut impl FnMut(Step),
) -> io::Result<Flows> {
    let endpoint = network.client(remote)?;
    let tls = identity::client(fingerprint, ALPN).map_err(io::Error::other)?;
    let config = ClientConfig::new(Arc::new(tls));
    let connecting = endpoint.connect_with(config, remote, SERVER_NAME).map_err(io::Error::other)?;
    let flows = async {
        let connection = patiently(connecting).await?.map_err(io::Error::other)?;
        let outcome = both(&endpoint, &connection, key, progress).await;
        connection.close(DONE, b"done");
        outcome
    };
    let flows = flows.await;
    end(endpoint).await;
    flows
}

async fn both(
    endpoint: &Endpoint,
    connection: &Connection,
    key: &Key,
    progress: &mut impl FnMut(Step),
) -> io::Result<Flows> {
    let (mut control, word) = connection.open_bi().await?;
    control.write_all(&key.password()).await?;
    let there = send(endpoint, connection, |bytes| progress(Step::There(bytes))).await?;
    // The listener reports how far that direction gets.
    let _ = receive(connection, |bytes| progress(Step::Back(bytes))).await;
    Ok(Flows { there, back: hear(word).await })
}

/// The other side's figures.
async fn hear(mut word: RecvStream) -> Option<Flow> {
    let word = timeout(MEET_PATIENCE, word.read_to_end(WORD_MAX)).await.ok()?.ok()?;
    serde_json::from_slice(&word).ok()
}

/// Takes part in one flow at `local`, if a holder of the ticket connects.
///
/// # Errors
/// When the port is not available.
pub(super) async fn serve(
    local: SocketAddr,
    key: &Key,
    identity: &Identity,
    network: &Network,
) -> io::Result<()> {
    let config = identity.server(ALPN).map_err(io::Error::other)?;
    let config = ServerConfig::with_crypto(Arc::new(config));
    let endpoint = Endpoint::bind(network.options(local.ip(), None), Some(config), local)?;
    if let Ok(Some((connection, control))) = timeout(MEET_PATIENCE, meet(&endpoint, key)).await {
        // The other side reports any failure.
        let _ = timeout(3 * PATIENCE, take_part(&endpoint, &connection, control)).await;
    }
    end(endpoint).await;
    Ok(())
}

/// The first connection that proves the ticket.
async fn meet(endpoint: &Endpoint, key: &Key) -> Option<(Connection, SendStream)> {
    loop {
        let incoming = endpoint.accept().await?;
        let shown = async {
            let connection = incoming.await.ok()?;
            let (control, mut word) = connection.accept_bi().await.ok()?;
            let mut said = [0; 32];
            word.read_exact(&mut said).await.ok()?;
            // Hashes are compared in constant time.
            (blake3::Hash::from(said) == blake3::Hash::from(key.password())).then_some((connection, control))
        };
        if let Ok(Some(met)) = timeout(MEET_PATIENCE / 4, shown).await {
            return Some(met);
        }
    }
}

async fn take_part(endpoint: &Endpoint, connection: &Connection, mut control: SendStream) -> io::Result<()> {
    // A stream cut off by the other side's time limit still gets its reply.
    let _ = receive(connection, |_| {}).await;
    let flow = send(endpoint, connection, |_| {}).await?;
    control.write_all(&serde_json::to_vec(&flow)?).await?;
    control.finish()?;
    let _ = timeout(MEET_PATIENCE, connection.closed()).await;
    Ok(())
}

/// Sends for a limited time; returns how far it got.
async fn send(
    endpoint: &Endpoint,
    connection: &Connection,
    mut progress: impl FnMut(u64),
) -> io::Result<Flow> {
    let began = Instant::now();
    let mut stream = connection.open_uni().await?;
    let all = async {
        let mut contents = blake3::Hasher::new().update(b"rc3 doctor").finalize_xof();
        let mut chunk = vec![0; CHUNK];
        let mut left = BYTES;
        while left > 0 {
            let len = left.min(CHUNK);
            // No packet on the way can shorten it.
            contents.fill(&mut chunk[..len]);
            stream.write_all(&chunk[..len]).await?;
            left -= len;
        }
        stream.finish()?;
        Ok::<_, io::Error>(stream.stopped().await.is_ok_and(|stopped| stopped.is_none()))
    };
    let mut all = Box::pin(all);
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let mut look = interval(LOOK_EVERY);
    let complete = loop {
        tokio::select! {
            complete = timeout_at(deadline, &mut all) => match complete {
                Ok(complete) => break complete?,
                Err(_) => break false,
            },
            _ = look.tick() => progress(delivered(connection)),
        }
    };
    let seconds = began.elapsed().as_secs_f64();
    drop(all);
    if !complete {
        let _ = stream.reset(DONE);
    }
    let path = PathFigures::of(&connection.stats(), endpoint.marks());
    let bytes = if complete { BYTES as u64 } else { delivered(connection).min(BYTES as u64) };
    Ok(Flow { bytes, seconds, complete, path })
}

/// Approximate bytes that arrived: for the primary, the bytes passed to it.
pub(crate) fn delivered(connection: &Connection) -> u64 {
    let stats = connection.stats();
    let rlp: u64 = stats.sent.levels.iter().map(|level| level.delivered_bytes).sum();
    rlp + stats.sent.primary_bytes.saturating_sub(stats.path.in_flight)
}

/// Receives one stream, at most as long as agreed.
async fn receive(connection: &Connection, mut progress: impl FnMut(u64)) -> io::Result<()> {
    let deadline = tokio::time::Instant::now() + PATIENCE + MEET_PATIENCE;
    let all = async {
        let mut stream = connection.accept_uni().await?;
        let mut bytes = 0;
        while let Some(chunk) = stream.read_chunk(CHUNK, false).await? {
            bytes += chunk.bytes.len();
            if bytes > BYTES {
                return Err(io::ErrorKind::InvalidData.into());
            }
            progress(bytes as u64);
        }
        Ok(())
    };
    timeout_at(deadline, all).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

async fn patiently<T>(future: impl Future<Output = T>) -> io::Result<T> {
    timeout(MEET_PATIENCE, future).await.map_err(|_| io::ErrorKind::TimedOut.into())
}

/// Signals the end to the peer and stores what was learned.
async fn end(endpoint: Endpoint) {
    endpoint.close(DONE, b"done");
    let _ = timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
    endpoint.save_paths().await;
}
