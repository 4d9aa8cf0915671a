//! Systems without hand-overs: there is no link, so none of this is ever called.

use std::task::{Context, Poll};

use rc3_core::{Detour, FromPredecessor};

use super::RelayReceived;

#[derive(Debug)]
pub(crate) enum RelayLink {}

impl RelayLink {
    pub(crate) fn poll_recv(&mut self, _: &mut Context<'_>) -> Poll<RelayReceived> {
        match *self {}
    }

    pub(crate) fn push_detour(&mut self, _: &Detour) -> bool {
        match *self {}
    }

    pub(crate) fn push_report(&mut self, _: FromPredecessor) {
        match *self {}
    }

    pub(crate) fn push_handed_on(&mut self, _: bool) {
        match *self {}
    }

    pub(crate) fn flush(&mut self, _: &mut Context<'_>) {
        match *self {}
    }
}
