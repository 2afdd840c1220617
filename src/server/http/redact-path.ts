import type { H3Event } from 'h3'

/** The path of a request as logs may hold it: whoever reads the token of a shared link there could open the document. */
export const shownPath = ({ url }: H3Event): string => url.pathname.replace(/(\/public\/shared\/)[^/]+/, '$1…')
