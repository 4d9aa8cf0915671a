//! What the workers of one endpoint share. Each has its own sockets, driver, machines and lock; the kernel gives each
//! datagram to the worker of its connection, so in the usual case they share nothing on its path.
//!
//! The exceptions are few, bounded and counted:
//!
//! - RLP datagrams with an id that the endpoint did not choose: early data, and those that left before the peer knew a
//!   chosen id. The [`Directory`] knows their worker.
//! - Datagrams at the wrong socket: the kernel steers datagrams that it has joined (GRO) by the first, and datagrams
//!   that arrived before the program was attached not at all.
//! - Stateless resets, which have no id.
//!
//! All pass through the [`Inbox`] of the right worker. So do verdicts about paths, which all workers use.
//!
//! Locks are taken in this order: a worker's state, the directory, the counters.

mod directory;
mod inbox;
mod turns;

use std::{
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{AcqRel, Acquire, Release},
        },
    },
    time::Instant,
};

use bytes::BytesMut;
use rc3_core::{DatagramMeta, RouteChange, WorkerHash, is_rlp};

pub(crate) use self::inbox::{Inbox, Mail};
use self::{
    directory::Directory,
    inbox::{InboxSender, inbox},
    turns::Turns,
};
#[cfg(feature = "metrics")]
use crate::metrics::EndpointGauges;
use crate::{
    handed_over::HandedOver,
    sync::{Mutex, PoisonError},
};

/// A datagram on its way between workers.
pub(crate) type Parcel = (DatagramMeta, BytesMut);

/// What may be a stateless reset: where it came from, and its token.
pub(crate) type Reset = (DatagramMeta, [u8; 16]);

/// The workers of one endpoint.
struct WorkerGroup {
    /// How datagrams are divided, if there are several.
    hash: Option<WorkerHash>,
    inboxes: Box<[InboxSender]>,
    directory: Mutex<Directory>,
    turns: Turns,
    /// Connections of all workers that have not ended.
    open: AtomicUsize,
    /// A driver has ended although it should not: the others end, too.
    failed: AtomicBool,
    handed_over: Mutex<HandedOver>,
    /// The last report of each worker.
    #[cfg(feature = "metrics")]
    gauges: Mutex<Box<[EndpointGauges]>>,
    /// What the workers have reported of [`Member::handed_over`].
    #[cfg(feature = "metrics")]
    reported: Mutex<HandedOver>,
}

/// One worker's access to the others. With one worker there is nobody to exchange anything with.
#[derive(Clone)]
pub(crate) struct Member {
    group: Arc<WorkerGroup>,
    number: usize,
}

impl Member {
    /// A member and its inbox for each worker of `hash`, or for the only one.
    pub(crate) fn all(hash: Option<WorkerHash>) -> Vec<(Self, Inbox)> {
        let workers = hash.map_or(1, |hash| hash.workers());
        let (senders, inboxes): (Vec<_>, Vec<_>) = (0..workers).map(|_| inbox()).unzip();
        let group = Arc::new(WorkerGroup {
            hash,
            inboxes: senders.into(),
            directory: Mutex::default(),
            turns: Turns::default(),
            open: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            handed_over: Mutex::default(),
            #[cfg(feature = "metrics")]
            gauges: Mutex::new((0..workers).map(|_| EndpointGauges::default()).collect()),
            #[cfg(feature = "metrics")]
            reported: Mutex::default(),
        });
        let member = |(number, inbox)| (Self { group: group.clone(), number }, inbox);
        inboxes.into_iter().enumerate().map(member).collect()
    }

    /// How datagrams are divided, if there are several workers.
    pub(crate) fn hash(&self) -> Option<&WorkerHash> {
        self.group.hash.as_ref()
    }

    /// The number of workers.
    pub(crate) fn workers(&self) -> usize {
        self.group.inboxes.len()
    }

    /// Passes a QUIC datagram of another worker to that one; returns any other datagram.
    pub(crate) fn keep_own(&self, parcel: Parcel) -> Option<Parcel> {
        let hash = self.hash().filter(|_| !is_rlp(&parcel.1));
        match hash.and_then(|hash| hash.worker_of(&parcel.1)) {
            Some(worker) if worker != self.number => {
                self.hand_over(worker, &parcel);
                None
            }
            _ => Some(parcel),
        }
    }

    /// Passes an RLP datagram that this worker cannot open to those that may. If none may, it waits for a moment: its
    /// handshake may just have begun at another worker.
    pub(crate) fn pass_stray(&self, now: Instant, parcel: &Parcel) {
        // Without an id nobody can open it.
        let Some(hashed) = self.hash().and_then(|hash| hash.worker_of(&parcel.1)) else { return };
        let workers = self.directory(|directory| directory.workers_for(now, self.number, hashed, parcel));
        workers.into_iter().for_each(|worker| self.hand_over(worker, parcel));
    }

    /// Publishes changes of this worker's derived ids and handshakes.
    pub(crate) fn publish(&self, now: impl FnOnce() -> Instant, changes: impl Iterator<Item = RouteChange>) {
        let mut changes = changes.peekable();
        if changes.peek().is_none() {
            return;
        }
        let now = now();
        let arrived = self.directory(|directory| {
            changes.flat_map(|change| directory.apply_change(now, self.number, change)).collect::<Vec<_>>()
        });
        arrived.iter().for_each(|parcel| self.hand_over(self.number, parcel));
    }

    /// Passes a datagram to a worker.
    fn hand_over(&self, worker: usize, parcel: &Parcel) {
        let mut counts = self.group.handed_over.lock().unwrap_or_else(PoisonError::into_inner);
        counts.count(&parcel.1);
        counts.dropped += u64::from(!self.group.inboxes[worker].push(parcel));
    }

    /// Passes what concerns all other workers to them: what one has learned about a path, and what may be a stateless
    /// reset, of which only the last bytes show whose it is.
    pub(crate) fn inform_others(&self, mail: impl Fn() -> Mail) {
        for (worker, inbox) in self.group.inboxes.iter().enumerate() {
            if worker != self.number {
                inbox.push_other(mail());
            }
        }
    }

    /// A connection has begun.
    pub(crate) fn add_connection(&self) {
        self.group.open.fetch_add(1, AcqRel);
    }

    /// A connection has ended; with the last one, all workers may end.
    pub(crate) fn remove_connection(&self) {
        if self.group.open.fetch_sub(1, AcqRel) == 1 {
            self.inform_others(|| Mail::Check);
        }
    }

    /// Connections of all workers.
    pub(crate) fn open_connections(&self) -> usize {
        self.group.open.load(Acquire)
    }

    /// A driver has ended although it should not: no datagram of its connections will be read again.
    pub(crate) fn fail(&self) {
        self.group.failed.store(true, Release);
        self.inform_others(|| Mail::Check);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.group.failed.load(Acquire)
    }

    /// Whether the primaries of this worker have more to send.
    pub(crate) fn set_sending_primary(&self, sending: bool) {
        self.group.turns.set(self.number, sending);
    }

    /// Whether the primaries of another worker have more to send, so that RLP must wait.
    pub(crate) fn must_wait(&self) -> bool {
        self.group.turns.is_taken_by_others(self.number)
    }

    /// Counters of all workers.
    pub(crate) fn handed_over(&self) -> HandedOver {
        *self.group.handed_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the report of this worker; returns the sum of the last ones of all.
    #[cfg(feature = "metrics")]
    pub(crate) fn report(&self, gauges: EndpointGauges) -> EndpointGauges {
        let mut reported = self.group.gauges.lock().unwrap_or_else(PoisonError::into_inner);
        reported[self.number] = gauges;
        let mut sum = EndpointGauges::default();
        reported.iter().for_each(|&gauges| sum += gauges);
        sum
    }

    /// How much [`Self::handed_over`] has grown since the last call at any worker.
    #[cfg(feature = "metrics")]
    pub(crate) fn take_handed_over(&self) -> HandedOver {
        let mut reported = self.group.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.handed_over();
        now.since(std::mem::replace(&mut *reported, now))
    }

    fn directory<T>(&self, ask: impl FnOnce(&mut Directory) -> T) -> T {
        ask(&mut self.group.directory.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A copy that holds no larger buffer.
fn copy((meta, datagram): &Parcel) -> Parcel {
    (*meta, BytesMut::from(&datagram[..]))
}

#[cfg(all(test, target_os = "linux", not(rc3_portable)))]
mod tests {
    use std::time::Duration;

    use rc3_core::{DestinationVerdict, Verdict};
    use rc3_sim::identity::{SERVER_NAME, identity};

    use super::Mail;
    use crate::{Connection, Endpoint, EndpointOptions};

    const BYTES: usize = 4 << 20;

    async fn transfer(near: &Connection, far: &Connection) {
        let sending = async {
            let mut stream = near.open_uni().await.unwrap();
            stream.write_all(&[7; BYTES]).await.unwrap();
            stream.finish().unwrap();
            assert_eq!(stream.stopped().await, Ok(None));
        };
        let receiving = async { far.accept_uni().await.unwrap().read_to_end(BYTES).await.unwrap() };
        let ((), got) = tokio::join!(sending, receiving);
        assert_eq!(got.len(), BYTES);
    }

    #[test]
    fn rlp_waits_while_the_primaries_of_another_worker_have_more_to_send() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let (client_config, server_config) = identity(&["test"]);
            let any = "127.0.0.1:0".parse().unwrap();
            let server = Endpoint::server(server_config, any).unwrap();
            let options = EndpointOptions { workers: 2, ..EndpointOptions::default() };
            let mut client = Endpoint::bind(options, None, any).unwrap();
            client.set_default_client_config(client_config);
            let connect = async || {
                let connecting = client.connect(server.local_addr().unwrap(), SERVER_NAME).unwrap();
                let accepting = async { server.accept().await.unwrap().await.unwrap() };
                let (near, far) = tokio::join!(connecting, accepting);
                (near.unwrap(), far)
            };
            let (near, far) = connect().await;
            // The worker without a connection sleeps, so its flag stays.
            tokio::time::sleep(Duration::from_millis(50)).await;
            let idle = client
                .handle
                .workers
                .iter()
                .find(|worker| worker.with(|state| state.connections.open() == 0));
            let idle = &idle.unwrap().member;
            let rlp = || client.stats().low.unwrap().sent_datagrams;
            idle.set_sending_primary(true);
            let before = rlp();
            transfer(&near, &far).await;
            assert_eq!(rlp(), before, "the primary has carried all of it");
            idle.set_sending_primary(false);
            // A new connection, whose primary has a small window.
            let (near, far) = connect().await;
            transfer(&near, &far).await;
            assert!(rlp() > before);
        });
    }

    #[test]
    fn what_one_worker_learns_of_a_path_the_others_know() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let options = EndpointOptions { workers: 3, ..EndpointOptions::default() };
            let endpoint = Endpoint::bind(options, None, "127.0.0.1:0".parse().unwrap()).unwrap();
            let workers = &endpoint.handle.workers;
            let at = workers[0].runtime.now();
            let learned = DestinationVerdict {
                destination: [192, 0, 2, 7].into(),
                verdict: Verdict::Honoured,
                score: -30,
                pace: None,
                network: None,
                at,
                until: at + Duration::from_secs(600),
            };
            workers[1].member.inform_others(|| Mail::Verdict(learned));
            for worker in [&workers[0], &workers[2]] {
                let known = || worker.with(|state| state.core.verdicts(at).collect::<Vec<_>>());
                while known() != [learned] {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            assert_eq!(endpoint.verdicts(), [learned], "once");
            endpoint.forget_verdicts();
            assert!(endpoint.verdicts().is_empty());
        });
    }
}
