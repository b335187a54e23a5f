//! Order of a certificate at the authority.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, BodyWrapper, BytesResponse, ChallengeType,
    Error, HttpClient, Identifier, NewAccount, NewOrder, Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use serde::{Deserialize, Serialize};

use super::stored_certificate::write_private_file;
use super::{AcmeConfig, challenge_answer};
use crate::outbound::{Outbound, describe_error};
use crate::runtime::certificate::{Certificate, CertificateReload};

/// Maximum time of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time to wait for a decision of the authority.
const DECISION_TIMEOUT: Duration = Duration::from_secs(90);

/// Client of the certificate authority.
pub(super) struct AcmeClient {
    pub(super) config: AcmeConfig,
    /// Directory of the account and the certificate.
    pub(super) directory: PathBuf,
    /// Certificate of the listeners, which answers challenges.
    pub(super) certificate: Certificate,
    pub(super) outbound: Outbound,
}

/// Contents of the file of the account.
#[derive(Serialize, Deserialize)]
struct StoredAccount {
    /// Directory of the authority that has the account.
    directory: String,
    credentials: AccountCredentials,
}

impl AcmeClient {
    /// Orders a certificate, stores it in the file and uses it for new connections. The error is
    /// a sentence without a full stop.
    pub(super) async fn get_certificate(&self, file: &Path) -> Result<(), String> {
        let identifiers: Vec<_> = self
            .config
            .domains
            .iter()
            .map(|domain| Identifier::Dns(domain.clone()))
            .collect();
        let new_order = NewOrder::new(&identifiers);
        let mut order = match self.open_account(true).await?.new_order(&new_order).await {
            Err(error) if is_unknown_account(&error) => {
                tracing::warn!("the certificate authority does not know the stored account");
                self.open_account(false).await?.new_order(&new_order).await
            }
            result => result,
        }
        .map_err(|error| describe_error(&error))?;
        self.answer_challenges(&mut order).await?;
        let retries = RetryPolicy::new()
            .initial_delay(Duration::from_secs(1))
            .timeout(DECISION_TIMEOUT);
        match order.poll_ready(&retries).await {
            Ok(OrderStatus::Ready) => {}
            Ok(_) => return Err(refusal(&mut order, None).await),
            Err(error) => return Err(refusal(&mut order, Some(&error)).await),
        }
        let key = KeyPair::generate().map_err(|error| error.to_string())?;
        let mut parameters = CertificateParams::new(self.config.domains.as_slice())
            .map_err(|error| error.to_string())?;
        parameters.distinguished_name = DistinguishedName::new();
        let request = parameters
            .serialize_request(&key)
            .map_err(|error| error.to_string())?;
        order
            .finalize_csr(request.der())
            .await
            .map_err(|error| describe_error(&error))?;
        let chain = order
            .poll_certificate(&retries)
            .await
            .map_err(|error| describe_error(&error))?;
        // Both in one file, so that it is replaced with its key.
        write_private_file(file, &(key.serialize_pem() + &chain))
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        match self.certificate.reload(true) {
            CertificateReload::Failed(error) => Err(error.to_string()),
            CertificateReload::Replaced | CertificateReload::Unchanged => Ok(()),
        }
    }

    /// Opens the stored account if it may be used, or creates one.
    async fn open_account(&self, may_use_stored: bool) -> Result<Account, String> {
        let file = self.directory.join("account.json");
        let stored = std::fs::read(&file)
            .ok()
            .filter(|_| may_use_stored)
            .and_then(|bytes| serde_json::from_slice::<StoredAccount>(&bytes).ok())
            .filter(|stored| stored.directory == self.config.directory);
        let builder = || Account::builder_with_http(Box::new(AcmeSender(self.outbound.clone())));
        if let Some(stored) = stored {
            return builder()
                .from_credentials(stored.credentials)
                .await
                .map_err(|error| describe_error(&error));
        }
        let contact = self
            .config
            .contact
            .as_ref()
            .map(|address| format!("mailto:{address}"));
        let contact: Vec<_> = contact.iter().map(String::as_str).collect();
        let new = NewAccount {
            contact: &contact,
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let directory = self.config.directory.clone();
        let (account, credentials) = builder()
            .create(&new, directory.clone(), None)
            .await
            .map_err(|error| describe_error(&error))?;
        let stored = StoredAccount {
            directory,
            credentials,
        };
        let text = serde_json::to_string(&stored).map_err(|error| error.to_string())?;
        write_private_file(&file, &text)
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        Ok(account)
    }

    /// Prepares the answers to the challenges of an order, and reports them as ready.
    async fn answer_challenges(&self, order: &mut Order) -> Result<(), String> {
        let mut answers = HashMap::new();
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization.map_err(|error| describe_error(&error))?;
            if authorization.status == AuthorizationStatus::Valid {
                continue;
            }
            let domain = authorization.identifier().to_string();
            let Some(mut challenge) = authorization.challenge(ChallengeType::TlsAlpn01) else {
                return Err(format!(
                    "the authority does not offer the challenge tls-alpn-01 for {domain}"
                ));
            };
            let digest = challenge.key_authorization().digest();
            let answer = challenge_answer(&domain, digest.as_ref())?;
            answers.insert(domain.to_ascii_lowercase(), answer);
            self.certificate.set_challenges(answers.clone());
            challenge
                .set_ready()
                .await
                .map_err(|error| describe_error(&error))?;
        }
        Ok(())
    }
}

/// True if the authority has no such account, as after the loss of its database.
fn is_unknown_account(error: &Error) -> bool {
    let Error::Api(problem) = error else {
        return false;
    };
    problem.r#type.as_deref() == Some("urn:ietf:params:acme:error:accountDoesNotExist")
}

/// Reason for which the authority refused an order: the problem of a challenge, or else `error`.
async fn refusal(order: &mut Order, error: Option<&Error>) -> String {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let Ok(state) = authorization.refresh().await else {
            break;
        };
        let domain = state.identifier().to_string();
        let problem = state
            .challenges
            .iter()
            .find_map(|challenge| challenge.error.as_ref());
        if let Some(problem) = problem {
            let problem = problem.to_string().replace(char::is_control, " ");
            return format!(
                "the authority could not verify {domain}: {problem}. Port 443 of it must lead to \
                 this server"
            );
        }
    }
    error.map_or_else(
        || "the authority refused the order".into(),
        |error| describe_error(error),
    )
}

/// Sender of the requests of the ACME library.
struct AcmeSender(Outbound);

impl HttpClient for AcmeSender {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let outbound = self.0.clone();
        Box::pin(async move {
            let response = outbound.send_streamed(request, REQUEST_TIMEOUT).await;
            let (parts, body) = response
                .map_err(|error| Error::Other(Box::new(error)))?
                .into_parts();
            let body = Box::new(body);
            Ok(BytesResponse { parts, body })
        })
    }
}
