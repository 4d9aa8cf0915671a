//! Interface for the benchmarks, fuzz targets, tests and the simulator of this workspace. It changes without notice.

pub use crate::structures::{
    ledger::Ledger,
    range_map::SpanSet,
    reassembler::{Loop, Reassembler},
    tournament::Tournament,
};

/// Protection of RLP datagrams.
pub mod keys {
    pub use crate::seams::keys::{
        EXPORTER_CONTEXT_CLIENT, EXPORTER_CONTEXT_SERVER, EXPORTER_LABEL, Limits, OpenError, RlpKeys,
        SECRET_LEN, Sealer, receiver_id,
    };
}

/// The wire format.
pub mod wire {
    pub use crate::wire::{
        arrival::Arrival,
        control::{ControlDecoder, ControlError, ControlFrame, EarlySecret, PAYLOAD_LEN_MAX},
        frame::{DataHeader, Frame, Frames, complete_len, emit_complete},
        head::{Head, HeadDecoder, HeadEncoder, HeadError},
        header::{ReceiverId, TAG_LEN},
        order::{Order, emit_probe},
        sack,
    };
}

/// The numbers of RLP's law, and other ones to measure what they do.
pub mod law {
    use crate::TransportConfig;
    pub use crate::laws::constants::Constants;
    use crate::laws::constants::Law;

    /// Lets connections with these settings follow other numbers than the product's.
    pub fn set_constants(transport: &mut TransportConfig, constants: &'static Constants) {
        transport.law = Law::new(constants);
    }
}
