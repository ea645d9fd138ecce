/** The MIME types of a saved run, as data and as it is drawn: `ipyagent.ui.static_html`. */
export const RUN = 'application/vnd.ipyagent.run+json';
export const TRANSCRIPT = 'application/vnd.ipyagent.transcript+json';
