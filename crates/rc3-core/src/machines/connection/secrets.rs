//! The secrets of a connection: of its RLP datagrams, and of the receipts in them.

use zeroize::Zeroizing;

use crate::{
    quic::Side,
    seams::{
        keys::{
            EXPORTER_CONTEXT_CLIENT, EXPORTER_CONTEXT_SERVER, EXPORTER_LABEL, RECEIPT_SECRET_LEN, ReceiptKey,
            RlpKeys, SECRET_LEN, protection::Protection,
        },
        primary::quinn::Quic,
    },
};

/// What the keys of a connection come from.
#[derive(Debug)]
pub(crate) struct RlpSecrets {
    /// The protection of RLP datagrams.
    pub(crate) protection: &'static dyn Protection,
    /// The secret of receipts, drawn at random for this connection.
    pub(crate) receipts: Zeroizing<[u8; RECEIPT_SECRET_LEN]>,
}

impl RlpSecrets {
    /// The keys of RLP datagrams, from the TLS exporter; `None` if it yields none.
    pub(super) fn derive_keys(&self, primary: &Quic) -> Option<RlpKeys> {
        let [mut client, mut server] = [Zeroizing::new([0; SECRET_LEN]), Zeroizing::new([0; SECRET_LEN])];
        let tls = primary.crypto_session();
        tls.export_keying_material(&mut *client, EXPORTER_LABEL, EXPORTER_CONTEXT_CLIENT).ok()?;
        tls.export_keying_material(&mut *server, EXPORTER_LABEL, EXPORTER_CONTEXT_SERVER).ok()?;
        let is_client = primary.side() == Side::Client;
        Some(RlpKeys::new(self.protection, [&client, &server], is_client))
    }

    /// The key of the receipts that the peer must return.
    pub(super) fn receipt_key(&self) -> ReceiptKey {
        ReceiptKey::new(self.protection, &self.receipts)
    }
}
