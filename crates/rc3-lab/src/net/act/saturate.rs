//! As many operations on a server of rc3 as a client can make in a time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use rc3_net::VarInt;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::net::transport::{ANSWER_MAX, CLOCK, ECHO, KEPT, Result, Target, rc3};

/// Connections of a client, except where each operation makes one.
const CONNECTIONS: usize = 4;
/// Time before anything is counted.
const WARM_UP: Duration = Duration::from_millis(300);

/// Operations that go on at once: each is a stream with a request and its answer.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Saturation {
    /// Bytes of a request; `None`: a new connection with a full handshake and one exchange.
    pub bytes: Option<usize>,
    /// How many at once.
    pub parallel: usize,
    /// How long they are counted.
    pub time: Duration,
}

impl Saturation {
    /// Prints a line when it begins to count, and operations per second at the end.
    pub(super) async fn run(self, target: &Target) -> Result<()> {
        let bytes = self.bytes.unwrap_or(KEPT);
        // Long streams are not sent back.
        let request: Arc<[u8]> = vec![if bytes > KEPT { CLOCK } else { ECHO }; bytes].into();
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            let endpoint = target.rc3_endpoint()?;
            clients.push((endpoint.clone(), endpoint.connect(target.address, "localhost")?.await?));
        }
        let done = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::<Result<()>>::new();
        for nth in 0..self.parallel {
            let (done, request, address) = (done.clone(), request.clone(), target.address);
            let (endpoint, connection) = clients[nth % CONNECTIONS].clone();
            tasks.spawn(async move {
                loop {
                    if self.bytes.is_none() {
                        let connection = endpoint.connect(address, "localhost")?.await?;
                        rc3::exchange(&connection, &request, ANSWER_MAX).await?;
                        connection.close(VarInt::from_u32(0), b"");
                    } else {
                        rc3::exchange(&connection, &request, ANSWER_MAX).await?;
                    }
                    done.fetch_add(1, Relaxed);
                }
            });
        }
        tokio::time::sleep(WARM_UP).await;
        let (before, begun) = (done.load(Relaxed), Instant::now());
        println!("begun");
        tokio::time::sleep(self.time).await;
        println!("{}", (done.load(Relaxed) - before) as f64 / begun.elapsed().as_secs_f64());
        // They go on unless they fail.
        tasks.try_join_next().map_or(Ok(()), |ended| ended?)
    }
}
