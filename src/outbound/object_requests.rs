//! Requests of the crate `object_store`, which leaves sending to its caller.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};

use super::typed_request::TypedLimits;
use super::{Outbound, SendError, SendStage};

/// Limits of one request: at least 27 kB/s for the parts of a file.
const LIMITS: TypedLimits = TypedLimits {
    timeout: Duration::from_secs(300),
    max_body_bytes: 16 << 20,
};

/// Client for `object_store` that sends by [`Outbound`].
pub(crate) struct ObjectConnector(pub(crate) Outbound);

impl fmt::Debug for ObjectConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ObjectConnector(..)")
    }
}

impl HttpConnector for ObjectConnector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Self(self.0.clone())))
    }
}

impl HttpService for ObjectConnector {
    fn call<'s, 'f>(
        &'s self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'f>>
    where
        's: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            let response = self.0.send_streamed(request, LIMITS).await;
            response
                .map(|response| response.map(Into::into))
                .map_err(convert_error)
        })
    }
}

/// Tells the library which failures it may retry.
fn convert_error(error: SendError) -> HttpError {
    let kind = match error.stage {
        SendStage::Request | SendStage::Setup | SendStage::Refused | SendStage::Tls => {
            HttpErrorKind::Unknown
        }
        SendStage::Resolve | SendStage::Connect | SendStage::Proxy => HttpErrorKind::Connect,
        SendStage::Exchange => HttpErrorKind::Interrupted,
        SendStage::Timeout => HttpErrorKind::Timeout,
    };
    HttpError::new(kind, error)
}
