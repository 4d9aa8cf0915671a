//! One client after another, each with a bad network of its own.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use rc3_link::random::Random;
use rc3_net::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig};
use rc3_sim::identity::{SERVER_NAME, identity};
use tokio::task::JoinSet;

use crate::{
    Result,
    peer::{Header, What, content},
    relay::{Faults, Relay},
    tally::Tally,
};

/// Silence after which either side gives the other up.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(6);

/// Longer than anything takes on the worst network there is here.
const PATIENCE: Duration = Duration::from_secs(180);

const BYTES_MAX: usize = 3_000_000;

/// Settings of both sides.
pub(crate) fn configs() -> (ClientConfig, ServerConfig) {
    let (mut client, mut server) = identity(&["soak"]);
    let mut transport = TransportConfig::default();
    let idle_timeout = IDLE_TIMEOUT.try_into().expect("a few seconds");
    transport.max_idle_timeout(Some(idle_timeout)).keep_alive_interval(Some(IDLE_TIMEOUT / 4));
    let transport = Arc::new(transport);
    client.transport_config(transport.clone());
    server.transport_config(transport);
    (client, server)
}

/// Runs sessions until it is time to stop.
pub(crate) async fn work(
    mut random: Random,
    server: SocketAddr,
    config: ClientConfig,
    tally: Arc<Tally>,
    until: Instant,
) -> Result<()> {
    while Instant::now() < until {
        session(&mut random, server, &config, &tally).await?;
        tally.fault()?;
    }
    Ok(())
}

async fn session(
    random: &mut Random,
    server: SocketAddr,
    config: &ClientConfig,
    tally: &Arc<Tally>,
) -> Result<()> {
    let faults = Faults::draw(random);
    let described = format!("{faults:?}");
    let relay = Relay::start(server, faults, Random::new(random.bits()), tally.clone())?;
    let mut endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
    endpoint.set_default_client_config(config.clone());
    let connection = endpoint.connect(relay.address, SERVER_NAME)?.await?;
    Tally::count(&tally.sessions, 1);
    relay.be_faulty();

    let mut streams = JoinSet::new();
    for _ in 0..1 + random.below(12) {
        streams.spawn(stream(Random::new(random.bits()), connection.clone(), tally.clone()));
    }
    let killed = random.below(4) == 0;
    if killed {
        tokio::time::sleep(Duration::from_secs(2).mul_f64(random.unit())).await;
        relay.fall_silent();
        Tally::count(&tally.killed, 1);
    }
    let all = async {
        while let Some(result) = streams.join_next().await {
            match result? {
                Err(error) if !killed => return Err(error),
                _ => {}
            }
        }
        Ok(())
    };
    let hangs = |_| Err(format!("a session hangs (killed: {killed})").into());
    let ended = tokio::time::timeout(PATIENCE, all).await.unwrap_or_else(hangs);
    ended.map_err(|error| format!("{error}, on {described}"))?;
    if random.below(2) == 0 {
        // Of a peer that is gone the error says so.
        let _ = connection.close_gracefully(0_u32.into(), b"").await;
    }
    drop(connection);
    tokio::time::timeout(PATIENCE, endpoint.wait_idle())
        .await
        .map_err(|_| "an endpoint never comes to rest")?;
    Ok(())
}

/// One stream of some kind.
async fn stream(mut random: Random, connection: Connection, tally: Arc<Tally>) -> Result<()> {
    let len_max = match random.below(3) {
        0 => 100,
        1 => 20_000,
        _ => BYTES_MAX,
    };
    let what = match random.below(8) {
        0 => What::Stop,
        1 => What::Dawdle,
        2 | 3 => What::Echo,
        _ => What::Sink,
    };
    let header = Header { what, seed: random.bits(), len: random.below(len_max) as u64 };
    transmit(&mut random, &connection, header, &tally)
        .await
        .map_err(|error| format!("{header:?}: {error}").into())
}

async fn transmit(random: &mut Random, connection: &Connection, header: Header, tally: &Tally) -> Result<()> {
    let Header { what, len, .. } = header;
    let (mut tx, rx) = match what {
        What::Echo => connection.open_bi().await.map(|(tx, rx)| (tx, Some(rx)))?,
        _ => (connection.open_uni().await?, None),
    };
    let gives_up = (random.below(10) == 0).then(|| random.below(len as usize + 1) as u64);
    let writing = async {
        tx.write_all(&header.encode()).await?;
        let mut at = 0;
        while at < len {
            let end = len.min(at + 1 + random.below(100_000) as u64);
            let bytes: Vec<u8> = (at..end).map(|at| content(header.seed, at)).collect();
            match tx.write_all(&bytes).await {
                Ok(()) => at = end,
                Err(rc3_net::WriteError::Stopped(_)) if what == What::Stop => {
                    Tally::count(&tally.given_up, 1);
                    return Ok(false);
                }
                Err(error) => return Err(error.into()),
            }
            if gives_up.is_some_and(|after| at > after) {
                // It may be stopped already.
                let _ = tx.reset(2_u32.into());
                Tally::count(&tally.given_up, 1);
                return Ok(false);
            }
        }
        // Fails only for a stream that has ended.
        let _ = tx.finish();
        tx.stopped().await?;
        Result::Ok(true)
    };
    let Some(mut rx) = rx else { return writing.await.map(drop) };
    let reading = async {
        let mut at = 0;
        while let Some(chunk) = rx.read_chunk(usize::MAX, true).await? {
            if !chunk.bytes.iter().zip(at..).all(|(&byte, at)| byte == content(header.seed, at)) {
                tally.report(format!("{header:?} came back changed at {at}"));
            }
            at += chunk.bytes.len() as u64;
        }
        Result::Ok(at)
    };
    let (written, read) = tokio::join!(writing, reading);
    // Given up: how much of it comes back is nobody's promise.
    if written? && read? != len {
        return Err("another length came back".into());
    }
    Ok(())
}
