//! The openers of one connection: the keys of early data, then those of the handshake. The receiver id distinguishes
//! them.

use std::{
    mem,
    ops::Range,
    time::{Duration, Instant},
};

use crate::seams::keys::{FIRST_NUMBERS, IdChange, OpenError, Opened, Opener, ReceiverId, receiver_id};
use crate::wire::control::EarlySecret;

/// How long early keys are kept after the handshake (RFC 9001 §4.9.3 has three PTO): low-priority datagrams may wait in
/// queues meanwhile.
const EARLY_KEPT: Duration = Duration::from_secs(3);

/// The openers of one connection.
#[derive(Default)]
pub(crate) struct Openers {
    /// Present once the handshake is complete.
    established: Option<Opener>,
    /// Present on servers whose client has sent its early secret.
    zero_rtt: Option<Opener>,
    /// Whether there was an early secret; a second one is a fault.
    had_early: bool,
    /// When the early keys are dropped.
    early_until: Option<Instant>,
    retired: Vec<ReceiverId>,
    /// Whether the endpoint may already have chosen ids, and those that it chose before there were keys.
    may_choose: bool,
    chosen: Vec<(u64, ReceiverId)>,
}

impl Openers {
    /// The handshake has yielded keys.
    pub(crate) fn establish(&mut self, mut opener: Opener) {
        if self.may_choose {
            // Handed out before.
            opener.ids.take_unchosen();
        }
        for (number, id) in mem::take(&mut self.chosen) {
            opener.ids.choose(number, id);
        }
        self.established = Some(opener);
    }

    /// The secret of the client's early data has arrived. `false`: not for the first time.
    pub(crate) fn on_early_secret(&mut self, secret: &EarlySecret) -> bool {
        let first = !mem::replace(&mut self.had_early, true);
        if first {
            self.zero_rtt = Some(secret.opener());
        }
        first
    }

    /// Opens a datagram in place; also returns whether the early keys opened it.
    ///
    /// # Errors
    /// As [`Opener::open`].
    pub(crate) fn open(&mut self, datagram: &mut [u8]) -> Result<(Opened, bool), OpenError> {
        let zero_rtt = receiver_id(datagram)
            .and_then(|id| self.zero_rtt.as_mut().filter(|opener| opener.ids.number(id).is_some()));
        match (zero_rtt, &mut self.established) {
            (Some(opener), _) => opener.open(datagram).map(|opened| (opened, true)),
            (None, Some(opener)) => opener.open(datagram).map(|opened| (opened, false)),
            (None, None) => Err(OpenError::NotForUs),
        }
    }

    /// The peer uses the path with this number now.
    pub(crate) fn on_path(&mut self, number: u64) {
        if let Some(opener) = &mut self.established {
            opener.ids.on_number(number);
        }
    }

    /// Numbers of paths for which the endpoint may choose an id; each once. It may choose the first ones before there
    /// are keys, so that the peer has them when its handshake is complete. Early data has only its derived id.
    pub(crate) fn take_unchosen_ids(&mut self) -> Range<u64> {
        match &mut self.established {
            Some(opener) => opener.ids.take_unchosen(),
            None if mem::replace(&mut self.may_choose, true) => 0..0,
            None => 0..FIRST_NUMBERS,
        }
    }

    /// The endpoint has chosen an id. `false`: it is not needed.
    pub(crate) fn choose_id(&mut self, number: u64, id: ReceiverId) -> bool {
        match &mut self.established {
            Some(opener) => opener.ids.choose(number, id),
            None => {
                self.chosen.push((number, id));
                true
            }
        }
    }

    /// Drops the early keys some time after the first call; call it from the end of the handshake on.
    pub(crate) fn expire_early(&mut self, now: Instant) {
        let Some(opener) = &self.zero_rtt else { return };
        if now >= *self.early_until.get_or_insert(now + EARLY_KEPT) {
            self.retired.extend(opener.ids.iter());
            self.zero_rtt = None;
        }
    }

    /// The accepted ids.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ReceiverId> + '_ {
        self.established.iter().chain(&self.zero_rtt).flat_map(|opener| opener.ids.iter())
    }

    /// Changes of these ids since the last call.
    pub(crate) fn take_id_change(&mut self) -> IdChange {
        let mut change = IdChange { retired: mem::take(&mut self.retired), ..IdChange::default() };
        for opener in self.established.iter_mut().chain(&mut self.zero_rtt) {
            let IdChange { retired, issued, chosen } = opener.ids.take_change();
            change.retired.extend(retired);
            change.issued.extend(issued);
            change.chosen.extend(chosen);
        }
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{seams::keys::Sealer, units::Level};

    fn sealed(sealer: &mut Sealer) -> Vec<u8> {
        let mut buf = Vec::new();
        let sealing = sealer.begin(Level::FIRST, &mut buf);
        buf.push(0);
        sealer.finish(sealing, &mut buf);
        buf
    }

    #[test]
    fn early_keys_open_until_some_time_after_the_handshake() {
        let now = Instant::now();
        let secret = EarlySecret([7; 32].into());
        let mut sealer = secret.sealer();
        let mut openers = Openers::default();
        assert_eq!(openers.open(&mut sealed(&mut sealer)), Err(OpenError::NotForUs));
        assert!(openers.on_early_secret(&secret));
        assert!(!openers.on_early_secret(&EarlySecret([8; 32].into())), "a second one is a fault");
        let issued = openers.take_id_change().issued;
        assert_eq!(openers.ids().collect::<Vec<_>>(), issued);

        openers.establish(EarlySecret([9; 32].into()).opener());
        openers.take_id_change();
        openers.expire_early(now);
        let mut datagram = sealed(&mut sealer);
        let copy = datagram.clone();
        assert!(matches!(openers.open(&mut datagram), Ok((_, true))));
        assert_eq!(openers.open(&mut copy.clone()), Err(OpenError::Duplicate));
        openers.expire_early(now + EARLY_KEPT);
        assert_eq!(openers.open(&mut sealed(&mut sealer)), Err(OpenError::NotForUs));
        assert_eq!(openers.take_id_change().retired, issued);
        assert!(!openers.on_early_secret(&secret), "nor does it come back");
    }
}
