//! The random values that quinn-proto draws for an endpoint outside its own seeded generator, drawn from the seed: for
//! simulations only.

use std::{sync::Arc, time::Duration};

use quinn_proto::{ConnectionId, ConnectionIdGenerator, EndpointConfig};

use crate::{seams::cryptography::ResetKey, structures::mixing};

/// Makes connection ids and reset tokens (RFC 9000 §10.3) follow from `seed`.
pub(super) fn seed(config: &mut EndpointConfig, seed: &[u8; 32]) {
    let ids = *seed;
    config.reset_key(Arc::new(ResetKey::new(seed))).cid_generator(move || Box::new(ConnectionIds::new(&ids)));
}

/// Connection ids that follow from a seed and never repeat, of the length quinn-proto's own have.
struct ConnectionIds {
    /// An id is the image of a number under a bijection, displaced by this.
    seed: u64,
    number: u64,
}

impl ConnectionIds {
    fn new(seed: &[u8; 32]) -> Self {
        Self { seed: mixing::absorb(0, seed), number: 0 }
    }
}

impl ConnectionIdGenerator for ConnectionIds {
    fn generate_cid(&mut self) -> ConnectionId {
        self.number += 1;
        ConnectionId::new(&mixing::mix(self.seed.wrapping_add(self.number)).to_be_bytes())
    }

    fn cid_len(&self) -> usize {
        size_of::<u64>()
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}
