/** The MIME type of a saved run: `ipyagent.ui.mirror`. */
export const MIME_TYPE = 'application/vnd.ipyagent.run+json';
