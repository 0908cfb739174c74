"""The bearer tokens of OAUTHBEARER: fetches the issuer's keys, and judges tokens by them."""
