//! Settings of one endpoint, which all of its connections share.

use std::{sync::Arc, time::Duration};

use super::{setters, transport::TIME_MAX};
use crate::{
    laws::{
        pool::Pool,
        worker_hash::{Destination, WorkerHash},
    },
    quic::{ConnectionIdGenerator, HmacKey, IMPLEMENTED_VERSIONS, RandomConnectionIdGenerator},
    seams::tls::{ConfigError, random, random_reset_key},
    shows::shows,
};

/// The shortest connection ids that applications may generate, in bytes: RFC 9000 §7.2 requires as many of clients, so
/// that others cannot guess them.
pub(crate) const ID_BYTES_MIN: usize = 8;

/// The longest (RFC 9000 §17.2).
pub(crate) const ID_BYTES_MAX: usize = 20;

/// Makes the generator of an endpoint's connection ids.
pub(crate) type IdGeneratorFactory = dyn Fn() -> Box<dyn ConnectionIdGenerator> + Send + Sync;

/// Settings of one endpoint, with quinn's names.
///
/// # Load balancers
///
/// Both loops of a connection must reach the same server; they use the same UDP ports.
///
/// - *Routing by addresses* needs no setting. A client whose address changes may reach another server. So that it gets a
///   stateless reset there and can connect again at once, instead of after its idle timeout, give all servers the same
///   [`Self::reset_key`], generators of ids that accept each other's ([`HashedConnectionIdGenerator::from_key`] with one
///   key), the same [`ServerConfig::token_key`] and the same TLS tickets. While a server drains, the balancer must remember
///   the addresses of its clients.
/// - *Routing by connection ids* (draft-ietf-quic-load-balancers): each server's [`Self::cid_generator`] makes ids of 8 bytes
///   that name the server, for example one byte of configuration, up to three of the number and at least four of nonce.
///   Encrypt them, as the draft recommends: a number in clear text shows observers which connections share a server. The
///   client's first packet and its early data carry ids that name none; the draft's fallback routes both by address. With
///   several workers the last eight bytes must vary.
///
/// To drain a server, send new clients elsewhere, and close the endpoint when it has no open connections.
///
/// [`HashedConnectionIdGenerator::from_key`]: crate::HashedConnectionIdGenerator::from_key
/// [`ServerConfig::token_key`]: crate::ServerConfig::token_key
///
/// ```
/// use rc3_core::{ConfigError, Endpoint, EndpointConfig, RandomConnectionIdGenerator};
///
/// let mut config = EndpointConfig::default();
/// config.cid_generator(|| Box::new(RandomConnectionIdGenerator::new(12)));
/// config.max_udp_payload_size(1472)?;
/// assert!(Endpoint::with_config(&config, None, true).is_ok());
///
/// // Others could guess such short ids.
/// config.cid_generator(|| Box::new(RandomConnectionIdGenerator::new(4)));
/// let refused = Endpoint::with_config(&config, None, true).unwrap_err();
/// assert_eq!(refused, ConfigError::ConnectionIds);
/// # Ok::<(), ConfigError>(())
/// ```
#[derive(Clone)]
pub struct EndpointConfig {
    /// A random one by default.
    pub(crate) reset_key: Option<Arc<dyn HmacKey>>,
    /// The primary's own by default.
    pub(crate) ids: Option<Arc<IdGeneratorFactory>>,
    pub(crate) max_udp_payload_size: u16,
    pub(crate) supported_versions: Vec<u32>,
    pub(crate) min_reset_interval: Duration,
    /// Set if the endpoint is one of several on its port.
    pub(crate) worker: Option<Worker>,
}

/// The place of an endpoint among those on its port.
#[derive(Debug, Clone)]
pub(crate) struct Worker {
    pub(crate) destination: Destination,
    pub(crate) pool: Arc<Pool>,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self {
            reset_key: None,
            ids: None,
            // Buffers have room for the longest possible datagram, so only the path limits the length.
            max_udp_payload_size: u16::MAX - 8,
            supported_versions: vec![1],
            min_reset_interval: Duration::from_millis(20),
            worker: None,
        }
    }
}

impl EndpointConfig {
    /// Default settings with this [`Self::reset_key`].
    pub fn new(reset_key: Arc<dyn HmacKey>) -> Self {
        Self { reset_key: Some(reset_key), ..Self::default() }
    }

    setters! {
        /// The key of the tokens in stateless resets (RFC 9000 §10.3). With the same key, and a
        /// [`Self::cid_generator`] that accepts the same ids, a restarted endpoint can end the connections that it had before.
        /// Default: a random key.
        reset_key: Arc<dyn HmacKey> => reset_key = Some(reset_key);

        /// Shortest interval between stateless resets, at most a day. Default: 20 ms, which bounds the answers to a flood of
        /// garbage.
        min_reset_interval: Duration => min_reset_interval = min_reset_interval.min(TIME_MAX);
    }

    /// Generates the ids of connections by a generator of `factory`, for example for load balancers that route by them.
    ///
    /// If ids have 8 bytes, RLP datagrams to this endpoint carry ids of the same generator, and never one that QUIC
    /// uses. Early data, and on a client the server's first datagrams, carry an id derived from the secrets of the
    /// connection, and so do all if ids are longer: a load balancer that routes by ids then drops them, and the primary
    /// loop brings their data.
    ///
    /// Ids must have a constant length of 8 to 20 bytes, and others must not be able to guess or to link them (RFC 9000
    /// §5.1). The endpoint cannot be made if a generator announces another length. An id of a wrong length, and those of
    /// a generator that only repeats itself, are replaced with random ones, and an error is logged.
    pub fn cid_generator(
        &mut self,
        factory: impl Fn() -> Box<dyn ConnectionIdGenerator> + Send + Sync + 'static,
    ) -> &mut Self {
        self.ids = Some(Arc::new(factory));
        self
    }

    /// The longest UDP payload in bytes that QUIC packets of peers may have. Default: 65527.
    ///
    /// # Errors
    /// [`ConfigError::OutOfBounds`] below 1200 or above 65527 (RFC 9000 §18.2).
    pub fn max_udp_payload_size(&mut self, bytes: u16) -> Result<&mut Self, ConfigError> {
        if !(1200..=u16::MAX - 8).contains(&bytes) {
            return Err(ConfigError::OutOfBounds);
        }
        self.max_udp_payload_size = bytes;
        Ok(self)
    }

    /// The value of [`Self::max_udp_payload_size`].
    pub fn get_max_udp_payload_size(&self) -> u64 {
        self.max_udp_payload_size.into()
    }

    /// The QUIC versions that servers accept and list in Version Negotiation packets. Default: version 1 alone.
    ///
    /// Versions that are not implemented are left out, since a client would choose them in vain: only version 1 and the
    /// drafts 29 to 34 are. If none is left, version 1 is.
    pub fn supported_versions(&mut self, versions: Vec<u32>) -> &mut Self {
        self.supported_versions = versions;
        self.supported_versions.retain(|version| IMPLEMENTED_VERSIONS.contains(version));
        if self.supported_versions.is_empty() {
            self.supported_versions.push(1);
        }
        self
    }

    /// The fixed bit of QUIC packets distinguishes them from RLP datagrams, so peers are never allowed to change it (RFC
    /// 9287), as with `false` in quinn. `true` has no effect; it grants a permission that no peer depends on.
    pub fn grease_quic_bit(&mut self, _allowed: bool) -> &mut Self {
        self
    }

    /// Settings for `workers` endpoints that share one port, 1 to 64. The ids of each one's connections lead to it by
    /// the [`WorkerHash`] that they have in common, and they share the key of stateless resets and the limits on memory
    /// and on waiting handshakes. The caller passes each datagram to the endpoint that the hash names.
    ///
    /// The last eight bytes of ids decide. If an application's generator does not vary them enough, random ids replace
    /// its own, and an error is logged. Each endpoint takes a generator from the factory; ids of two generators may be
    /// equal, since each endpoint uses only those that lead to it.
    ///
    /// # Errors
    /// [`ConfigError::Workers`] for another number, [`ConfigError::ConnectionIds`] if ids are too short or too long.
    pub fn for_workers(&self, workers: usize) -> Result<Vec<Self>, ConfigError> {
        if !(1..=WorkerHash::WORKERS_MAX).contains(&workers) {
            return Err(ConfigError::Workers);
        }
        if workers == 1 {
            return Ok(vec![self.clone()]);
        }
        let hash = WorkerHash::new(random(), workers, self.id_len()?);
        Ok(self.for_hash(hash))
    }

    /// As [`Self::for_workers`], for endpoints that take over the port of those with `hash`.
    ///
    /// # Errors
    /// [`ConfigError::ConnectionIds`] if ids have another length than theirs.
    pub fn for_workers_of(&self, hash: WorkerHash) -> Result<Vec<Self>, ConfigError> {
        if self.id_len()? != hash.id_len() {
            return Err(ConfigError::ConnectionIds);
        }
        Ok(self.for_hash(hash))
    }

    fn for_hash(&self, hash: WorkerHash) -> Vec<Self> {
        let reset_key = self.reset_key.clone().unwrap_or_else(random_reset_key);
        let pool = Arc::<Pool>::default();
        let config = |worker| Self {
            reset_key: Some(reset_key.clone()),
            worker: Some(Worker { destination: Destination { hash, worker }, pool: pool.clone() }),
            ..self.clone()
        };
        (0..hash.workers()).map(config).collect()
    }

    /// The length of the endpoint's own ids.
    ///
    /// # Errors
    /// [`ConfigError::ConnectionIds`] if an application's generator makes too short or too long ones.
    pub fn id_len(&self) -> Result<usize, ConfigError> {
        Ok(self.id_generator()?.map_or(ID_BYTES_MIN, |generator| generator.cid_len()))
    }

    /// How datagrams are divided, if this endpoint is one of several on its port.
    pub fn worker_hash(&self) -> Option<WorkerHash> {
        self.worker.as_ref().map(|worker| worker.destination.hash)
    }

    /// A generator of ids, if the application has set one.
    ///
    /// # Errors
    /// [`ConfigError::ConnectionIds`] if its ids are too short or too long.
    pub(crate) fn id_generator(&self) -> Result<Option<Box<dyn ConnectionIdGenerator>>, ConfigError> {
        let Some(factory) = &self.ids else { return Ok(None) };
        let generator = factory();
        if !(ID_BYTES_MIN..=ID_BYTES_MAX).contains(&generator.cid_len()) {
            return Err(ConfigError::ConnectionIds);
        }
        Ok(Some(generator))
    }
}

/// A random id of `len` bytes.
pub(crate) fn random_id(len: usize) -> crate::quic::ConnectionId {
    RandomConnectionIdGenerator::new(len).generate_cid()
}

shows!(EndpointConfig: max_udp_payload_size, supported_versions, min_reset_interval);
