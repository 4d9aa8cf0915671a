//! Datagrams on their way to other workers.

use std::{iter, time::Instant};

use crate::{
    state::State,
    workers::{Member, Parcel, Reset},
};

/// What no connection of one worker owns, perhaps those of another.
#[derive(Default)]
pub(super) struct Strays {
    datagrams: Vec<Parcel>,
    resets: Vec<Reset>,
}

impl Strays {
    /// Takes them from the machines.
    pub(super) fn collect(&mut self, state: &mut State) {
        self.datagrams.extend(iter::from_fn(|| state.core.poll_stray()));
        self.resets.extend(iter::from_fn(|| state.core.poll_reset()));
    }

    /// Passes them to the other workers, without the lock.
    pub(super) fn pass(&mut self, now: Instant, member: &Member) {
        self.datagrams.drain(..).for_each(|parcel| member.pass_stray(now, &parcel));
        self.resets.drain(..).for_each(|reset| member.pass_reset(&reset));
    }
}
