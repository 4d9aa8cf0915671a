//! Slots for connections that a server need not keep.
//!
//! Invariants: no site excludes another one, and no address that is not validated ends a connection.

use std::{
    cmp::Reverse,
    collections::HashMap,
    future::poll_fn,
    net::IpAddr,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::Poll,
};

use rc3_core::site_of;
use tokio::sync::oneshot;

use crate::incoming::Incoming;

/// A limit on connections that holds without locking anybody out.
///
/// A connection takes a [`Slot`] from its first packet on. If there is none, the site with the most slots gives one
/// up: that of its oldest connection, and preferably one that is not in use ([`Slot::uses`]). Connections in use only
/// make room for sites that have fewer. All addresses of one subscriber count as one site: an IPv4 address, or
/// 48 bits of an IPv6 address.
///
/// ```
/// # async fn example(server: rc3_net::Endpoint) {
/// let slots = rc3_net::Slots::new(1024, 64);
/// while let Some(incoming) = server.accept().await {
///     let Some((incoming, mut slot)) = slots.admit(incoming) else { continue };
///     tokio::spawn(async move {
///         let Ok(connection) = incoming.await else { return };
///         let serving = async { /* ... */ };
///         if slot.run(serving).await.is_none() {
///             connection.close(1u32.into(), b"other connections needed its slot");
///         }
///     });
/// }
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Slots(Arc<Mutex<SlotTable>>);

impl Slots {
    /// Slots for `max` connections, at most `per_site_max` of them of one site.
    pub fn new(max: usize, per_site_max: usize) -> Self {
        let (taken, sites) = (Vec::new(), HashMap::new());
        Self(Arc::new(Mutex::new(SlotTable { max, per_site_max, next_id: 0, taken, sites })))
    }

    /// Takes a slot for a connection that a peer wants to open. `None` if the peer has been refused, or has to prove its
    /// address first (RFC 9000 §8.1.2): another connection only makes room for an address that is validated.
    pub fn admit(&self, incoming: Incoming) -> Option<(Incoming, Slot)> {
        let site = site_of(incoming.remote_address().ip());
        let mut table = self.table();
        match table.room(site) {
            FreeSlot::Free => {}
            FreeSlot::None => {
                incoming.refuse();
                return None;
            }
            FreeSlot::Of(_) if incoming.may_retry() => {
                let _ = incoming.retry();
                return None;
            }
            FreeSlot::Of(oldest) => table.evict(oldest),
        }
        let (evict, evicted) = oneshot::channel();
        let uses = Uses::default();
        let id = table.add(site, evict, uses.clone());
        Some((incoming, Slot { slots: self.clone(), id, evicted, is_lost: false, uses }))
    }

    fn table(&self) -> MutexGuard<'_, SlotTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The slot of a connection, until it is dropped.
#[derive(Debug)]
pub struct Slot {
    slots: Slots,
    id: u64,
    evicted: oneshot::Receiver<()>,
    is_lost: bool,
    uses: Uses,
}

impl Slot {
    /// Runs `future`; `None` if another connection took the slot before the end. Then close this one.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing but `future`.
    pub async fn run<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            // The table drops a sender without a message only when this slot is dropped.
            self.is_lost = self.is_lost || Pin::new(&mut self.evicted).poll(cx).is_ready();
            if self.is_lost { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
    }

    /// Where to report what the connection is used for.
    pub fn uses(&self) -> Uses {
        self.uses.clone()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.table().remove(self.id);
    }
}

/// What a connection is used for, such as requests.
#[derive(Debug, Clone, Default)]
pub struct Uses(Arc<AtomicUsize>);

impl Uses {
    /// The connection is in use until the result is dropped.
    pub fn begin(&self) -> InUse {
        self.0.fetch_add(1, Relaxed);
        InUse(self.clone())
    }

    fn any(&self) -> bool {
        self.0.load(Relaxed) > 0
    }
}

/// One use of a connection. See [`Uses::begin`].
#[derive(Debug)]
pub struct InUse(Uses);

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Relaxed);
    }
}

/// The addresses that one subscriber can have, see [`site_of`].
type Site = IpAddr;

#[derive(Debug)]
struct SlotTable {
    max: usize,
    per_site_max: usize,
    next_id: u64,
    /// Oldest first.
    taken: Vec<TakenSlot>,
    /// How many of these each site has.
    sites: HashMap<Site, usize>,
}

#[derive(Debug)]
struct TakenSlot {
    id: u64,
    site: Site,
    evict: oneshot::Sender<()>,
    uses: Uses,
}

/// Where a further connection finds a slot.
#[derive(Debug, PartialEq, Eq)]
enum FreeSlot {
    Free,
    /// In the place of this one.
    Of(usize),
    None,
}

impl SlotTable {
    fn count(&self, site: Site) -> usize {
        self.sites.get(&site).copied().unwrap_or(0)
    }

    fn room(&self, site: Site) -> FreeSlot {
        let own = self.count(site);
        let only_own = own >= self.per_site_max;
        if !only_own && self.taken.len() < self.max {
            return FreeSlot::Free;
        }
        let gives_way = |taken: &TakenSlot| {
            (!only_own || taken.site == site) && (!taken.uses.any() || self.count(taken.site) > own + 1)
        };
        let candidates = self.taken.iter().enumerate().filter(|(_, taken)| gives_way(taken));
        let first =
            candidates.max_by_key(|(at, taken)| (self.count(taken.site), !taken.uses.any(), Reverse(*at)));
        first.map_or(FreeSlot::None, |(at, _)| FreeSlot::Of(at))
    }

    fn add(&mut self, site: Site, evict: oneshot::Sender<()>, uses: Uses) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.taken.push(TakenSlot { id, site, evict, uses });
        *self.sites.entry(site).or_default() += 1;
        id
    }

    fn evict(&mut self, at: usize) {
        let taken = self.take(at);
        // Its task may have ended already.
        let _ = taken.evict.send(());
    }

    /// Frees a slot that has not been evicted.
    fn remove(&mut self, id: u64) {
        if let Ok(at) = self.taken.binary_search_by_key(&id, |taken| taken.id) {
            self.take(at);
        }
    }

    fn take(&mut self, at: usize) -> TakenSlot {
        let taken = self.taken.remove(at);
        let count = self.count(taken.site);
        match count {
            0 | 1 => _ = self.sites.remove(&taken.site),
            _ => _ = self.sites.insert(taken.site, count - 1),
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(address: &str) -> Site {
        site_of(address.parse().unwrap())
    }

    /// A table, and the uses of its connections.
    struct Slots(SlotTable, Vec<Uses>);

    impl Slots {
        fn new(max: usize, per_site_max: usize, taken: &[&str]) -> Self {
            let table = SlotTable { max, per_site_max, next_id: 0, taken: Vec::new(), sites: HashMap::new() };
            let mut slots = Self(table, Vec::new());
            taken.iter().for_each(|address| slots.add(address));
            slots
        }

        fn add(&mut self, address: &str) {
            let uses = Uses::default();
            self.0.add(site(address), oneshot::channel().0, uses.clone());
            self.1.push(uses);
        }

        fn room(&self, address: &str) -> FreeSlot {
            self.0.room(site(address))
        }
    }

    #[test]
    fn addresses_of_one_subscriber_are_one_site() {
        assert_eq!(site("2001:db8::1"), site("2001:db8:0:ffff:1::2"));
        assert_ne!(site("2001:db8::1"), site("2001:db8:1::1"));
        assert_eq!(site("192.0.2.1"), site("::ffff:192.0.2.1"));
        assert_ne!(site("192.0.2.1"), site("192.0.2.2"));
    }

    #[test]
    fn the_site_with_the_most_slots_gives_up_its_oldest() {
        let mut slots = Slots::new(4, 4, &["192.0.2.9", "192.0.2.1", "192.0.2.1"]);
        assert_eq!(slots.room("192.0.2.1"), FreeSlot::Free);
        slots.add("192.0.2.1");
        assert_eq!(slots.room("192.0.2.7"), FreeSlot::Of(1));
        assert_eq!(slots.room("192.0.2.1"), FreeSlot::Of(1));
        slots.0.evict(1);
        assert_eq!(slots.room("192.0.2.7"), FreeSlot::Free);
    }

    #[test]
    fn a_site_with_all_of_its_slots_gives_up_its_own() {
        let slots = Slots::new(10, 2, &["192.0.2.9", "192.0.2.1", "192.0.2.1"]);
        assert_eq!(slots.room("192.0.2.1"), FreeSlot::Of(1));
        assert_eq!(slots.room("192.0.2.9"), FreeSlot::Free);
    }

    #[test]
    fn connections_in_use_make_room_only_for_sites_that_have_fewer() {
        let slots = Slots::new(3, 3, &["192.0.2.1", "192.0.2.1", "192.0.2.9"]);
        let uses: Vec<_> = slots.1.iter().map(Uses::begin).collect();
        assert_eq!(slots.room("192.0.2.1"), FreeSlot::None, "one of its own would give way");
        assert_eq!(slots.room("192.0.2.9"), FreeSlot::None, "both would only change places");
        assert_eq!(slots.room("192.0.2.7"), FreeSlot::Of(0));
        drop(uses);
        assert_eq!(slots.room("192.0.2.1"), FreeSlot::Of(0));
    }

    #[test]
    fn an_idle_connection_goes_before_an_older_one_in_use() {
        let slots = Slots::new(3, 3, &["192.0.2.1", "192.0.2.1", "192.0.2.1"]);
        let _in_use = (slots.1[0].begin(), slots.1[2].begin());
        assert_eq!(slots.room("192.0.2.7"), FreeSlot::Of(1));
        assert_eq!(slots.room("192.0.2.1"), FreeSlot::Of(1));
    }

    #[test]
    fn slots_are_freed_in_any_order_and_only_once() {
        let mut slots = Slots::new(3, 3, &["192.0.2.1", "192.0.2.1", "192.0.2.9"]);
        for id in [1, 0, 1, 7] {
            slots.0.remove(id);
        }
        assert_eq!(slots.0.taken.len(), 1);
        assert_eq!((slots.0.count(site("192.0.2.1")), slots.0.count(site("192.0.2.9"))), (0, 1));
    }
}
