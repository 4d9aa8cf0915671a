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
        Aead, EXPORTER_CONTEXT_CLIENT, EXPORTER_CONTEXT_SERVER, EXPORTER_LABEL, OpenError, RlpKeys,
        SECRET_LEN, Sealer, receiver_id,
    };
}

/// What a simulator puts in the place of TLS and of the AEAD.
pub mod security {
    use std::sync::Arc;

    use crate::{ClientConfig, HandshakeTokenKey, ServerConfig};
    pub use crate::{
        seams::{
            keys::{
                RECEIPT_SECRET_LEN,
                protection::{DirectionKeys, Generation, Mask, Protection},
            },
            tls::replaced::Replacement,
        },
        structures::mixing::{absorb, mix},
    };

    /// Settings of a client whose sessions resume none, with default transport settings.
    pub fn client_config(replacement: Replacement<dyn quinn_proto::crypto::ClientConfig>) -> ClientConfig {
        ClientConfig::over(Arc::new(replacement))
    }

    /// Settings of a server for such clients, with the key of its tokens.
    pub fn server_config(
        replacement: Replacement<dyn quinn_proto::crypto::ServerConfig>,
        token_key: Arc<dyn HandshakeTokenKey>,
    ) -> ServerConfig {
        ServerConfig::over(Arc::new(replacement), token_key)
    }
}

/// The wire format.
pub mod wire {
    pub use crate::wire::{
        arrival::Arrival,
        control::{ControlDecoder, ControlFrame, EarlySecret},
        frame::{DataHeader, Frame, Frames, complete_len, emit_complete},
        head::{Head, HeadDecoder, HeadEncoder},
        header::{HEADER_LEN, ReceiverId, TAG_LEN},
        malformed::Malformed,
        order::{Order, emit_probe},
        sack,
        varint::parse as parse_varint,
    };
}

/// The numbers of RLP's law, and other ones to measure what they do.
pub mod law {
    use crate::TransportConfig;
    use crate::laws::constants::Law;
    pub use crate::laws::constants::{Constants, Variant};

    /// Lets connections with these settings follow other numbers than the product's. They are never freed: this is for
    /// programs that measure and end.
    pub fn set_constants(transport: &mut TransportConfig, constants: Constants) {
        transport.law = Law::new(Box::leak(Box::new(constants)));
    }
}
