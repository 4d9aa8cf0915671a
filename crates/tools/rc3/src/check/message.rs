//! Messages, in the frames of [`crate::transfer::message`].
//!
//! On every connection the visitor opens one bidirectional stream and writes one [`Hello`]. The listener answers a plan
//! or a wish for probes with [`Reply::Accepted`]. With a plan both keep the stream open until the last flow; for probes
//! the visitor closes the connection, and the listener answers [`super::probe`]s at the same port. On the connection of a
//! flow the sender of the flow opens one unidirectional stream for its bytes, and the listener answers
//! [`Reply::Arrived`] or [`Reply::Sent`]. Refusals are close codes with a reason.

use serde::{Deserialize, Serialize};

use super::plan::CheckPlan;
use crate::{figures::PathFigures, transfer::ticket::SECRET_BYTES};

/// The protocol version. A listener refuses others.
pub const VERSION: u16 = 1;

/// The first message of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`].
    pub version: u16,
    /// The ticket's secret.
    pub secret: [u8; SECRET_BYTES],
    /// What the connection is for.
    pub request: Request,
}

/// What a connection is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Flows by this plan.
    Flows(CheckPlan),
    /// The next flow of the running plan.
    Flow {
        /// From [`Reply::Accepted`].
        session: u64,
        /// Its index in [`CheckPlan::flows`].
        nth: u32,
    },
    /// Answers to probes.
    Probes,
}

/// Listener to visitor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// The plan or the wish is accepted.
    Accepted {
        /// Identifies the session.
        session: u64,
    },
    /// The last byte of a flow to the listener is there.
    Arrived(ReceiverCount),
    /// The visitor has all bytes of a flow from the listener, or has stopped it.
    Sent {
        /// What the listener measured of its path.
        path: PathFigures,
    },
}

/// What a receiver counted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReceiverCount {
    /// Bytes of the flow, each counted once.
    pub bytes: u64,
    /// Seconds from its first packet to its last byte, or to the end of the time.
    pub seconds: f64,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::plan::{RUNS_MAX, SECONDS_MAX, SIZE_BYTES_MAX, SIZES_MAX},
        *,
    };
    use crate::transfer::message::{MESSAGE_BYTES_MAX, decode, encode};

    #[test]
    fn the_longest_plan_fits_into_a_message() {
        let sizes = vec![SIZE_BYTES_MAX; SIZES_MAX];
        let plan = CheckPlan { sizes, runs: RUNS_MAX, seconds: SECONDS_MAX, both: true, forget: true };
        assert!(plan.is_bounded());
        let hello = Hello { version: VERSION, secret: [7; SECRET_BYTES], request: Request::Flows(plan) };
        let frame = encode(&hello);
        assert!(frame.len() <= 4 + MESSAGE_BYTES_MAX, "{}", frame.len());
        assert_eq!(decode(&frame[4..]), Some(hello));
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_a_message_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (decode::<Hello>(&bytes), decode::<Reply>(&bytes));
        }
    }
}
