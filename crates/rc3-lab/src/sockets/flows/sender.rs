//! On-off senders: silent for a while, then a flow until all of it has arrived, and again.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use rc3_lab::sockets::clock;
use rc3_net::Endpoint;
use tokio::task::JoinSet;

use crate::{
    Result,
    flow::Header,
    load::{Draws, Traffic, seed_of},
    rc3,
    scheme::Scheme,
    tcp,
};

/// Runs on two threads: more would take turns with the forwarder.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(future)
}

/// How a sender's flows get to the receiver.
enum Transport {
    Tcp,
    /// A socket of its own, as another host would have.
    Rc3(Endpoint),
}

impl Transport {
    async fn send(&self, to: SocketAddr, header: &Header) -> Result<()> {
        match self {
            Self::Tcp => tcp::send(to, header).await,
            Self::Rc3(endpoint) => rc3::send(endpoint, to, header).await,
        }
    }
}

/// Plays all senders until their last flows have arrived. Those that fail are told on standard error.
pub(crate) async fn play(
    to: SocketAddr,
    certificate: &[u8],
    traffic: Traffic,
    schemes: &[Scheme],
    senders: u32,
    time: Duration,
) -> Result<()> {
    let until = Instant::now() + time;
    let mut playing = JoinSet::new();
    for sender in 0..senders {
        let scheme = schemes[sender as usize % schemes.len()];
        let transport = match scheme.transport(seed_of(traffic.seed, sender)) {
            None => Transport::Tcp,
            Some(config) => Transport::Rc3(rc3::client(certificate, Arc::new(config))?),
        };
        let mut draws = Draws::new(traffic, sender);
        playing.spawn(async move {
            for number in 0.. {
                let (gap, len) = draws.next();
                if Instant::now() + gap > until {
                    break;
                }
                tokio::time::sleep(gap).await;
                let header = Header { sender, number, scheme, begun: clock::now(), len };
                if let Err(error) = transport.send(to, &header).await {
                    eprintln!("flow {number} of sender {sender}: {error}");
                }
            }
        });
    }
    while let Some(ended) = playing.join_next().await {
        ended?;
    }
    Ok(())
}
