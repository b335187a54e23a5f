//! URLs, certificates and status codes.

use super::super::test_server::{TestAuthority, local_endpoint, test_client};
use super::super::*;

#[test]
fn invalid_certificates_are_explained() {
    let authority = TestAuthority::new();
    let pem: Vec<u8> = authority.issuer.pem().into();
    let own = authority.sign();
    let other = authority.sign();
    let identity = |chain: &[u8], key: &[u8]| {
        Some(EtcdIdentity {
            chain: chain.into(),
            key: key.into(),
        })
    };
    for (authorities, identity, part) in [
        (b"none".to_vec(), None, "no CERTIFICATE section"),
        (own.key.clone(), None, "certificate of the authority"),
        (pem.clone(), identity(b"", &own.key), "client certificate"),
        (
            pem.clone(),
            identity(&own.chain, b"none"),
            "private key in PEM",
        ),
        (pem.clone(), identity(&own.chain, &other.key), "its own key"),
    ] {
        let tls = EtcdTls {
            authorities: Some(authorities),
            identity,
        };
        let error = test_client(vec![local_endpoint(1)], None, Some(tls)).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn urls_name_endpoints_user_and_prefix() {
    for (text, endpoints, prefix) in [
        ("etcd://a", "a:2379", ""),
        ("etcd://a/", "a:2379", ""),
        (
            "etcd://a:1,b,c.example.com.:65535/x",
            "a:1 b:2379 c.example.com.:65535",
            "x",
        ),
        (
            "etcds://10.0.0.1,[::1],[2001:db8::1]:9/x/y-z_1.~/",
            "10.0.0.1:2379 [::1]:2379 [2001:db8::1]:9",
            "x/y-z_1.~",
        ),
    ] {
        let url = EtcdUrl::parse(text).unwrap();
        let shown: Vec<_> = url.endpoints.iter().map(ToString::to_string).collect();
        assert_eq!(shown.join(" "), endpoints, "{text}");
        assert_eq!(url.key_prefix, prefix, "{text}");
        assert_eq!(url.uses_tls, text.starts_with("etcds"), "{text}");
        assert_eq!(url.user, None, "{text}");
    }
    for (text, name, password) in [
        ("etcd://me:secret@a", "me", "secret"),
        ("etcd://me@a", "me", ""),
        ("etcd://m%40e:a%2Fb%3a:c@a/x", "m@e", "a/b::c"),
    ] {
        let url = EtcdUrl::parse(text).unwrap();
        let user = url.user.unwrap();
        assert_eq!((&*user.name, &*user.password), (name, password), "{text}");
        assert_eq!(
            url.endpoints,
            [EtcdEndpoint {
                host: "a".into(),
                port: 2379
            }]
        );
    }
}

#[test]
fn invalid_urls_are_explained_without_the_password() {
    for (text, part) in [
        ("", "--cluster is empty"),
        ("http://u:secret@a:2379", "neither etcd:// nor etcds://"),
        ("etcd://", "names no host"),
        ("etcd:///x", "names no host"),
        ("etcd://u:secret@/x", "names no host"),
        ("etcd://a,,b", "\"\" in the URL of etcd is no host"),
        ("etcd://a,b,a:2379", "a:2379 twice"),
        ("etcd://a b", "is no host"),
        ("etcd://-a", "is no host"),
        ("etcd://a:0", "1 to 65535"),
        ("etcd://a:65536", "1 to 65535"),
        ("etcd://u:secret@a:+1", "1 to 65535"),
        ("etcd://a:", "1 to 65535"),
        ("etcd://::1", "give [::1]"),
        ("etcd://[::1", "is no host"),
        ("etcd://[::1]2379", "is no host"),
        ("etcd://[a]:2379", "is no host"),
        ("etcd://u:secret@a:1:2", "1 to 65535"),
        ("etcd://a/x y", "prefix \"x y\""),
        ("etcd://a/x//y", "prefix"),
        ("etcd://a/x?secret", "prefix"),
        ("etcd://:secret@a", "the user in the URL"),
        ("etcd://u:sec/secret@a", "the user in the URL"),
        ("etcd://u:sec@secret@a", "the user in the URL"),
        ("etcd://u:secret%ff@a", "the user in the URL"),
    ] {
        let error = EtcdUrl::parse(text).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
        assert!(
            !error.contains("secret") || text.contains('?'),
            "{text}: {error}"
        );
    }
}

#[test]
fn status_codes_say_if_a_request_was_executed() {
    use tonic::{Code, Status};
    let meaning = |code, text: &str| match EtcdError::from_status(
        &local_endpoint(1),
        &Status::new(code, text),
    ) {
        EtcdError::Refused(refusal) => Some(refusal.kind),
        _ => None,
    };
    for code in [
        Code::Unavailable,
        Code::DeadlineExceeded,
        Code::Cancelled,
        Code::Unknown,
        Code::Internal,
        Code::Aborted,
    ] {
        assert_eq!(meaning(code, "etcdserver: request timed out"), None);
    }
    for (code, text, kind) in [
        (
            Code::ResourceExhausted,
            "etcdserver: mvcc: database space exceeded",
            RefusalKind::NoSpace,
        ),
        (
            Code::ResourceExhausted,
            "etcdserver: too many requests",
            RefusalKind::Other,
        ),
        (
            Code::InvalidArgument,
            "etcdserver: revision of auth store is old",
            RefusalKind::Unauthenticated,
        ),
        (
            Code::Unauthenticated,
            "etcdserver: invalid auth token",
            RefusalKind::Unauthenticated,
        ),
        (
            Code::OutOfRange,
            "etcdserver: mvcc: required revision has been compacted",
            RefusalKind::Compacted,
        ),
        (Code::FailedPrecondition, "", RefusalKind::Other),
    ] {
        assert_eq!(meaning(code, text), Some(kind), "{text}");
    }
    let too_long = "Error, decoded message length too large";
    assert_eq!(meaning(Code::OutOfRange, too_long), None);
}
