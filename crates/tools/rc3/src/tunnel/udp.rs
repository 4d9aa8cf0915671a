//! Ports of UDP, at either end: what arrives there becomes a flow.

use std::{collections::HashMap, net::SocketAddr, sync::Arc, time::Duration};

use rc3_net::Connection;
use tokio::{
    net::UdpSocket,
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::sleep,
};

use super::{
    FLOWS_MAX,
    address::Target,
    flows::{Flows, NumberedFlow, Source, arrival},
    notes::Failures,
    open::{Open, OpenAnswer},
    relay::{Broken, TargetStream},
};

/// Most datagrams of a flow that wait for the tunnel.
const WAITING_MAX: usize = 64;
/// Bytes of the datagrams of all flows of a port that wait.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// Time until an address whose flow failed is given another one.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// A forwarded port on this host, and where its datagrams go.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) socket: Arc<UdpSocket>,
    pub(super) target: Target,
    pub(super) connection: Connection,
    pub(super) flows: Arc<Flows>,
}

impl Port {
    /// Serves each address that sends to the port in a task, for ever. Dropping the future ends the tasks.
    pub(super) async fn serve(self, failures: Arc<Failures>) {
        let (port, mut tasks) = (Arc::new(self), JoinSet::new());
        // Until the runtime has seen that, sends without waiting fail.
        let _ = port.socket.writable().await;
        let mut senders = HashMap::<SocketAddr, mpsc::Sender<_>>::new();
        let waiting = Arc::new(Semaphore::new(WAITING_BYTES_MAX));
        loop {
            let (datagram, from) = tokio::select! {
                Some(Ok(from)) = tasks.join_next() => {
                    senders.remove(&from);
                    continue;
                }
                arrived = arrival(&port.socket) => match arrived {
                    Ok(arrived) => arrived,
                    // Of an earlier datagram that nobody took.
                    Err(_) => continue,
                },
            };
            if senders.len() >= FLOWS_MAX as usize && !senders.contains_key(&from) {
                failures.print_note(&format!("{from} has no flow: {FLOWS_MAX} are open"));
                continue;
            }
            let sender = senders.entry(from).or_insert_with(|| {
                let (sender, datagrams) = mpsc::channel(WAITING_MAX);
                let (port, failures) = (Arc::clone(&port), Arc::clone(&failures));
                tasks.spawn(async move {
                    if let Err(line) = port.carry(from, Source::Port(datagrams)).await {
                        failures.print_note(&line);
                        sleep(FAILURE_PAUSE).await;
                    }
                    from
                });
                sender
            });
            // Without room it is lost, as in any network. None is longer than 64 KiB.
            if let Ok(room) = Arc::clone(&waiting).try_acquire_many_owned(datagram.len() as u32) {
                let _ = sender.try_send((datagram, room));
            }
        }
    }

    /// Carries what comes from one address until its flow ends.
    async fn carry(&self, from: SocketAddr, datagrams: Source) -> Result<(), String> {
        let flow = self.flows.opened(Arc::clone(&self.socket), from);
        let flow = flow.ok_or_else(|| format!("{from} has no flow: {FLOWS_MAX} are open"))?;
        let open = Open::Flow(flow.number, self.target.clone());
        let Ok(stream) = TargetStream::open(&self.connection, &open).await else { return Ok(()) };
        match flow.carry(&self.connection, stream, true, datagrams).await {
            Err(Broken::Answer(answer)) => Err(format!("cannot reach {}/udp: {answer}", self.target)),
            _ => Ok(()),
        }
    }
}

/// Answers the stream of a peer that opens a flow, and carries what its target sends.
pub(super) async fn answer(
    connection: &Connection,
    mut stream: TargetStream,
    opened: Result<NumberedFlow, OpenAnswer>,
) {
    let answer = OpenAnswer::about(&opened);
    if stream.send.write_all(&[answer.code()]).await.is_ok()
        && let Ok(flow) = opened
    {
        let _ = flow.carry(connection, stream, false, flow.target()).await;
    }
}
