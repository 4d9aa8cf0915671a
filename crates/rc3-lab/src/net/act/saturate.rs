//! As many operations on a server of rc3 as a client can make in a time.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use clap::ValueEnum;
use rc3_net::{Connection, Endpoint, VarInt};
use tokio::task::JoinSet;

use crate::net::transport::{CLOCK, ECHO, KEPT, Result, rc3};

/// Bytes of a long stream.
const STREAM: usize = 4 << 20;
/// Connections of a client, except where each operation makes one.
const CONNECTIONS: usize = 4;
/// Time before anything is counted.
const WARM_UP: Duration = Duration::from_millis(300);

/// A kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Operation {
    /// A new connection with a full handshake and one exchange.
    Connections,
    /// A request and an answer of 64 bytes on a connection that exists.
    Exchanges,
    /// A stream of 4 MiB to the server.
    Bulk,
}

impl Operation {
    /// The name on the command line, and the unit in the table.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Connections => ("connections", "connections/s"),
            Self::Exchanges => ("exchanges", "exchanges/s"),
            Self::Bulk => ("bulk", "Gbit/s"),
        }
    }

    /// Puts `parallel` operations at a time on the server. Prints a line when it begins to count, and the rate at the
    /// end.
    pub(super) async fn saturate(
        self,
        connect: impl Fn() -> Result<Endpoint>,
        address: SocketAddr,
        parallel: usize,
        time: Duration,
    ) -> Result<()> {
        let (request, worth): (Arc<[u8]>, f64) = match self {
            Self::Connections | Self::Exchanges => ([ECHO; KEPT].into(), 1.0),
            Self::Bulk => (vec![CLOCK; STREAM].into(), STREAM as f64 * 8e-9),
        };
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            let endpoint = connect()?;
            clients.push((endpoint.clone(), endpoint.connect(address, "localhost")?.await?));
        }
        let (done, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let mut tasks = JoinSet::<Result<()>>::new();
        for nth in 0..if self == Self::Bulk { CONNECTIONS } else { parallel } {
            let (done, over, request) = (done.clone(), over.clone(), request.clone());
            let (endpoint, connection) = clients[nth % CONNECTIONS].clone();
            tasks.spawn(async move {
                while !over.load(Relaxed) {
                    self.operate(&endpoint, &connection, address, &request).await?;
                    done.fetch_add(1, Relaxed);
                }
                Ok(())
            });
        }
        tokio::time::sleep(WARM_UP).await;
        let (before, begun) = (done.load(Relaxed), Instant::now());
        println!("begun");
        tokio::time::sleep(time).await;
        println!("{}", (done.load(Relaxed) - before) as f64 / begun.elapsed().as_secs_f64() * worth);
        over.store(true, Relaxed);
        tasks.join_all().await.into_iter().collect()
    }

    async fn operate(
        self,
        endpoint: &Endpoint,
        connection: &Connection,
        address: SocketAddr,
        request: &[u8],
    ) -> Result<()> {
        if self == Self::Connections {
            let connection = endpoint.connect(address, "localhost")?.await?;
            rc3::exchange(&connection, request, KEPT).await?;
            connection.close(VarInt::from_u32(0), b"");
            return Ok(());
        }
        rc3::exchange(connection, request, KEPT).await.map(drop)
    }
}
