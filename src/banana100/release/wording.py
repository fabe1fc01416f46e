"""What went wrong between here and an S3 server, in one clause, without a key, a secret or the server's own words."""

import errno
from collections.abc import Iterator

import aiohttp
from botocore import exceptions as aws
from botocore.parsers import ResponseParserError

_DENIED = "access is denied; these credentials must be allowed to list, read, write and delete there"
_UNKNOWN_KEY = "the server does not know this key; correct AWS_ACCESS_KEY_ID"
_EXPIRED = "the session token has expired; get new credentials and run it again"
_NO_BUCKET = "there is no such bucket; make it first, or correct its name"
_ELSEWHERE = "the bucket is in another region; name that in AWS_DEFAULT_REGION"
_BUSY = "the server asks for fewer requests; run it again later"
_FAILED = "the server failed, perhaps as its disk is full; see its log and run it again"
_FULL_THERE = "the server has no room left; run it again when it has"
_NOT_S3 = "what answers there does not speak S3; correct the endpoint"

# By the code of the answer; a number where an answer has no body to hold a code.
_ANSWERS = {
    "403": _DENIED,
    "AccessDenied": _DENIED,
    "AllAccessDisabled": _DENIED,
    "Forbidden": _DENIED,
    "UnauthorizedAccess": _DENIED,
    "InvalidAccessKeyId": _UNKNOWN_KEY,
    "SignatureDoesNotMatch": "the secret does not belong to the key; correct AWS_SECRET_ACCESS_KEY",
    "ExpiredToken": _EXPIRED,
    "ExpiredTokenException": _EXPIRED,
    "TokenRefreshRequired": _EXPIRED,
    "InvalidToken": "the session token is not valid; correct AWS_SESSION_TOKEN, or unset it",
    "RequestTimeTooSkewed": "this machine's clock and the server's are too far apart; set it right",
    "404": _NO_BUCKET,
    "NoSuchBucket": _NO_BUCKET,
    "301": _ELSEWHERE,
    "AuthorizationHeaderMalformed": _ELSEWHERE,
    "IllegalLocationConstraintException": _ELSEWHERE,
    "PermanentRedirect": _ELSEWHERE,
    "503": _BUSY,
    "ServiceUnavailable": _BUSY,
    "SlowDown": _BUSY,
    "500": _FAILED,
    "InternalError": _FAILED,
    "507": _FULL_THERE,
    "InsufficientStorage": _FULL_THERE,
    "QuotaExceeded": _FULL_THERE,
    "XMinioStorageFull": _FULL_THERE,
    "405": _NOT_S3,
    "501": _NOT_S3,
    "MethodNotAllowed": _NOT_S3,
    "NotImplemented": _NOT_S3,
}

# By the exception of the client, the first that fits.
_FAILURES = (
    (
        (aws.NoCredentialsError, aws.PartialCredentialsError),
        "no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    ),
    (aws.ProfileNotFound, "the profile that AWS_PROFILE names is not in the AWS configuration; correct it"),
    (
        (aws.CredentialRetrievalError, aws.TokenRetrievalError, aws.SSOError, aws.UnauthorizedSSOTokenError),
        "the credentials could not be fetched; sign in again",
    ),
    (ResponseParserError, _NOT_S3),
    (aws.SSLError, "its certificate is not trusted; correct the endpoint, or name the authority in AWS_CA_BUNDLE"),
    (aws.ProxyConnectionError, "the proxy does not answer; correct HTTPS_PROXY"),
    (
        (aws.EndpointConnectionError, aws.ConnectTimeoutError),
        "the server does not answer; correct the endpoint, or run it again when it is there",
    ),
    (
        (aws.HTTPClientError, aws.IncompleteReadError, aiohttp.ClientError, ConnectionError, TimeoutError),
        "the connection broke off; run it again, what has arrived is not sent twice",
    ),
)
_FULL_HERE = "the disk of this machine is full; make room and run it again"


def why(error: BaseException) -> str | None:
    """Why talking to an S3 server failed, and what to do.

    Args:
        error: what a client raised; s3fs keeps botocore's exception as the cause of its own.

    Returns:
        A clause without a full stop; None for what is neither the user's nor the world's fault, but a bug.
    """
    chain = list(_causes(error))
    for one in chain:
        if isinstance(one, aws.ClientError):
            code = str(one.response.get("Error", {}).get("Code", ""))
            return _ANSWERS.get(code, f"the server answers {code if code.isalnum() else 'with an error'}")
    for one in chain:
        for kinds, clause in _FAILURES:
            if isinstance(one, kinds):
                return clause
        if isinstance(one, OSError) and one.errno in (errno.ENOSPC, errno.EDQUOT):
            return _FULL_HERE
    if any(isinstance(one, aws.BotoCoreError) for one in chain):
        return f"the S3 client gave up ({type(error).__name__})"
    return None


def first_line(error: BaseException) -> str:
    """What an exception of DVC says first, without a full stop."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".:")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error:
        yield error
        error = error.__cause__ or error.__context__
