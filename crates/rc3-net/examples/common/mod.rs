//! What examples on one machine need to trust each other.

use std::{error::Error, sync::Arc};

use rc3_net::{
    ClientConfig, ServerConfig,
    rustls::{RootCertStore, pki_types::PrivateKeyDer},
};

/// A certificate for `localhost`, and a client that trusts it.
pub(crate) fn configs() -> Result<(ClientConfig, ServerConfig), Box<dyn Error>> {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_string()])?;
    let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
    let mut roots = RootCertStore::empty();
    roots.add(certified.cert.der().clone())?;
    let client = ClientConfig::with_root_certificates(Arc::new(roots))?;
    let server = ServerConfig::with_single_cert(vec![certified.cert.into()], key)?;
    Ok((client, server))
}
